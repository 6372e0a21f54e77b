#include "compiler/grad.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/nearest.h"
#include "ir/rewrite.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/grad_context.h"

namespace rlx {
namespace {

constexpr int kMaxBodies = 8;  // of bodies in bodies: the ops decide it

bool is_plain_float(const Shape& s) {
  return !s.is_state() && s.layout == Layout::plain &&
         (s.dtype == DType::f32 || s.dtype == DType::f16 || s.dtype == DType::bf16);
}

// One differentiation: a tape of the nodes between wrt and outputs, then a walk back over it.
class Reverse {
 public:
  Reverse(Builder& b, std::span<const Value> outputs, std::span<const Value> wrt)
      : b_(b), outputs_(outputs), wrt_(wrt), origin_(b.origin()) {
    check_plain(outputs, "output");
    check_plain(wrt, "wrt");
    find_needed();
    for (Value v : wrt) active_[v] = true;
    const auto count = static_cast<std::int32_t>(b.graph().nodes().size());
    for (std::int32_t i = 0; i < count; ++i)
      if (needed_[static_cast<std::size_t>(i)]) record(i, 0);
  }

  void seed(std::span<const Value> seeds) {
    if (!seeds.empty() && seeds.size() != outputs_.size())
      fail(ErrorCode::invalid_argument, "grad: expected {} seeds, found {}", outputs_.size(), seeds.size());
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const Shape shape = b_.shape(outputs_[i]).with(DType::f32);
      if (!seeds.empty() && !(b_.shape(seeds[i]) == shape))
        fail(ErrorCode::invalid_argument, "grad: seed {}: expected {}, found {}", i, shape.text(),
             b_.shape(seeds[i]).text());
      parts_[outputs_[i]].push_back(
          seeds.empty() ? b_(Full{.dims = DimList(shape.dims()), .value = 1.0f, .dtype = DType::f32}) : seeds[i]);
    }
  }

  void walk_back() {
    for (auto step = tape_.rbegin(); step != tape_.rend(); ++step) visit(*step);
    b_.set_origin(origin_);
  }

  Value result(Value wrt) {
    const Shape shape = b_.shape(wrt);
    const Value g = total(wrt);
    if (!g) {
      require_differentiable(wrt);
      return b_(Full{.dims = DimList(shape.dims()), .value = 0.0f, .dtype = shape.dtype});
    }
    return shape.dtype == DType::f32 ? g : b_(Cast{.to = shape.dtype}, g);
  }

 private:
  struct Order {
    bool operator()(Value x, Value y) const { return std::pair(x.node, x.index) < std::pair(y.node, y.index); }
  };
  // A node, or (with `body`) the place after the nodes of its body, where its gradients become theirs.
  struct Step {
    std::int32_t node;
    std::vector<Value> body;
  };

  void check_plain(std::span<const Value> values, std::string_view what) const {
    for (Value v : values)
      if (!is_plain_float(b_.shape(v)))
        fail(ErrorCode::invalid_argument, "grad: {} {}: expected a value of f32, f16 or bf16, found {}", what,
             name_of(v), b_.shape(v).text());
  }
  std::string name_of(Value v) const {
    const Node& n = b_.graph().node(v);
    return n.name.empty() ? node_text(n, v.node) : "\"" + n.name + "\"";
  }

  void find_needed() {
    const auto nodes = b_.graph().nodes();
    needed_.assign(nodes.size(), false);
    for (Value v : outputs_) needed_[static_cast<std::size_t>(v.node)] = true;
    for (std::size_t i = nodes.size(); i-- > 0;)
      if (needed_[i])
        for (Value v : nodes[i].inputs) needed_[static_cast<std::size_t>(v.node)] = true;
  }

  bool is_active(Value v) const { return active_.find(v) != active_.end(); }

  // Puts a node on the tape when it depends on wrt; a node without grad() but with a body is its body's nodes.
  void record(std::int32_t i, int nesting) {
    const Node node = b_.graph().node(i);
    if (std::none_of(node.inputs.begin(), node.inputs.end(), [&](Value v) { return is_active(v); })) return;
    for (std::size_t k = 0; k < node.results.size(); ++k) active_[{i, static_cast<std::int32_t>(k)}] = true;
    if (node.def->grad != nullptr || node.def->decompose == nullptr) {
      tape_.push_back({i, {}});
      return;
    }
    RLX_CHECK(nesting < kMaxBodies, std::string(node.def->name));
    const auto first = static_cast<std::int32_t>(b_.graph().nodes().size());
    b_.set_origin(node.origin);
    std::vector<Value> results = expand(node, node.inputs, b_);
    const auto end = static_cast<std::int32_t>(b_.graph().nodes().size());
    for (std::int32_t k = first; k < end; ++k) record(k, nesting + 1);
    tape_.push_back({i, std::move(results)});
  }

  // The gradient of a value: the sum of what arrived, in the order of arrival; an empty Value when nothing did.
  Value total(Value v) {
    const auto at = parts_.find(v);
    if (at == parts_.end()) return {};
    while (at->second.size() > 1) {
      at->second[0] = b_(Add{}, at->second[0], at->second[1]);
      at->second.erase(at->second.begin() + 1);
    }
    return at->second[0];
  }

  void visit(const Step& step) {
    const Node node = b_.graph().node(step.node);
    b_.set_origin(node.origin);
    std::vector<Value> results, grads;
    for (std::size_t k = 0; k < node.results.size(); ++k) {
      results.push_back({step.node, static_cast<std::int32_t>(k)});
      grads.push_back(total(results.back()));
    }
    if (std::none_of(grads.begin(), grads.end(), [](Value g) { return static_cast<bool>(g); })) return;
    if (!step.body.empty()) {
      for (std::size_t k = 0; k < grads.size(); ++k)
        if (grads[k]) parts_[step.body[k]].push_back(grads[k]);
      return;
    }
    if (node.def->grad == nullptr) refuse(node, step.node);
    std::vector<bool> wanted;
    for (Value v : node.inputs) wanted.push_back(is_active(v));
    GradContext c(b_, node, std::move(results), grads, std::move(wanted));
    node.def->grad(node.attrs, c);
    if (!c.body().empty()) go_through(c, grads);
    for (std::size_t k = 0; k < node.inputs.size(); ++k)
      for (Value g : c.contributions()[k]) parts_[node.inputs[k]].push_back(g);
  }

  // The node's gradient is that of other ops from fresh copies of its operands.
  void go_through(GradContext& c, const std::vector<Value>& grads) {
    std::vector<Value> outputs, seeds, wrt;
    std::vector<int> operands;
    for (std::size_t k = 0; k < grads.size(); ++k)
      if (grads[k]) {
        outputs.push_back(c.body()[k]);
        seeds.push_back(grads[k]);
      }
    for (int i = 0; i < c.arity(); ++i)
      if (const Value start = c.starts()[static_cast<std::size_t>(i)]; start && c.wants(i)) {
        wrt.push_back(start);
        operands.push_back(i);
      }
    const std::vector<Value> found = gradients(b_, outputs, wrt, seeds);
    for (std::size_t w = 0; w < found.size(); ++w) c.add(operands[w], found[w]);
  }

  [[noreturn]] static void refuse(const Node& node, std::int32_t index) {
    fail(ErrorCode::unsupported, "grad: {} has no gradient", node_text(node, index));
  }

  // An output that depends on wrt only through ops without a gradient has none: that is an error, not a zero.
  void require_differentiable(Value wrt) const {
    std::map<Value, bool, Order> reached;
    reached[wrt] = true;
    const Step* culprit = nullptr;
    for (const Step& step : tape_) {
      const Node& node = b_.graph().node(step.node);
      const auto is_reached = [&](Value v) { return reached.find(v) != reached.end(); };
      if (!step.body.empty() ? std::none_of(step.body.begin(), step.body.end(), is_reached)
                             : std::none_of(node.inputs.begin(), node.inputs.end(), is_reached))
        continue;
      for (std::size_t k = 0; k < node.results.size(); ++k)
        reached[{step.node, static_cast<std::int32_t>(k)}] = true;
      const bool none = step.body.empty() && node.def->grad == nullptr && has_reached_float(node, is_reached);
      if (culprit == nullptr && none && !is_condition(step.node)) culprit = &step;
    }
    if (culprit == nullptr) return;
    for (Value v : outputs_)
      if (reached.find(v) != reached.end()) refuse(b_.graph().node(culprit->node), culprit->node);
  }

  // What reads integers only is not where a derivative ends: that is the op that made them of floats.
  template <typename Reached>
  bool has_reached_float(const Node& node, const Reached& is_reached) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](Value v) { return is_reached(v) && is_float(b_.shape(v).dtype); });
  }

  // A comparison whose truth only chooses between values: its derivative is 0 wherever it exists.
  bool is_condition(std::int32_t i) const {
    const Node& node = b_.graph().node(i);
    return node.results.size() == 1 && node.results[0].dtype == DType::boolean;
  }

  Builder& b_;
  std::span<const Value> outputs_, wrt_;
  std::string origin_;
  std::vector<bool> needed_;
  std::map<Value, bool, Order> active_;
  std::vector<Step> tape_;
  std::map<Value, std::vector<Value>, Order> parts_;
};

Value named_output(const Graph& graph, const std::string& wanted) {
  std::vector<std::string> known;
  for (const Output& o : graph.outputs()) {
    if (o.name == wanted) return o.value;
    known.push_back(o.name);
  }
  fail(ErrorCode::invalid_argument, "grad: {}: no output is named \"{}\"{}", graph.name, wanted,
       did_you_mean(wanted, known));
}

Value named_source(const Graph& graph, const std::string& wanted) {
  if (const Value v = graph.find_source(wanted)) return v;
  std::vector<std::string> known;
  for (const Node& n : graph.nodes())
    if (n.def->has(Trait::source)) known.push_back(n.name);
  fail(ErrorCode::invalid_argument, "grad: {}: no input or param is named \"{}\"{}", graph.name, wanted,
       did_you_mean(wanted, known));
}

// "grad.NAME", with one more "grad." as long as an output has that name: the graph may itself be a gradient.
std::string free_name(const std::vector<Output>& outputs, const std::string& wrt) {
  std::string name = "grad." + wrt;
  while (std::any_of(outputs.begin(), outputs.end(), [&](const Output& o) { return o.name == name; }))
    name = "grad." + name;
  return name;
}

}  // namespace

std::vector<Value> gradients(Builder& b, std::span<const Value> outputs, std::span<const Value> wrt,
                             std::span<const Value> seeds) {
  Reverse reverse(b, outputs, wrt);
  reverse.seed(seeds);
  reverse.walk_back();
  std::vector<Value> results;
  for (Value v : wrt) results.push_back(reverse.result(v));
  return results;
}

Graph grad(Graph graph, std::span<const std::string> outputs, std::span<const std::string> wrt) {
  std::vector<Value> from, to;
  for (const std::string& o : outputs) from.push_back(named_output(graph, o));
  for (const std::string& w : wrt) to.push_back(named_source(graph, w));
  Builder b(graph);
  const std::vector<Value> grads = gradients(b, from, to);
  std::vector<Output> all(graph.outputs().begin(), graph.outputs().end());
  for (std::size_t i = 0; i < wrt.size(); ++i) all.push_back({free_name(all, wrt[i]), grads[i]});
  graph.set_outputs(std::move(all));
  drop_dead(graph);
  return graph;
}

}  // namespace rlx
