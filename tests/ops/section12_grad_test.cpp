// Gradients of all ops over their samples, against central differences in the interpreter's f64 mode.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "compiler/grad.h"
#include "ir/rewrite.h"
#include "ir/sample.h"
#include "ir/source.h"
#include "ops/access.h"
#include "ops/materialize.h"
#include "ops/support.h"
#include "sanitized.h"

namespace rlx {
namespace {

bool is_plain_float(const Shape& s) {
  return !s.is_state() && s.layout == Layout::plain &&
         (s.dtype == DType::f32 || s.dtype == DType::f16 || s.dtype == DType::bf16);
}

// Ops with float operands and results that have no gradient all the same, and why.
const std::map<std::string_view, std::string_view> kExceptions = {
    {"pack", "a weight in another layout or format: gradients are taken of the stored weight"},
    {"fake_quantize", "rounds to integers, as all ops that quantise"},
};

bool has_state(const Sample& sample) {
  return std::any_of(sample.operands.begin(), sample.operands.end(),
                     [](const SampleOperand& o) { return o.shape.is_state(); });
}

// Whether the op rounds floats to integers on its way, by its body: no gradient passes there.
bool quantises(const OpDef& def, const Sample& sample) {
  Graph graph = sample_graph(def, sample);
  if (def.decompose == nullptr) return false;
  const Node node = graph.nodes().back();
  const std::size_t before = graph.nodes().size();
  Builder b(graph);
  expand(node, node.inputs, b);
  return std::any_of(graph.nodes().begin() + static_cast<std::ptrdiff_t>(before), graph.nodes().end(),
                     [](const Node& n) { return n.results[0].dtype == DType::xq8; });
}

// What the rule says: everything from floats to floats but sources, state and sampling ops. Of the recurrent ops the
// functional form, without a state.
bool should_have_gradient(const OpDef& def) {
  if (def.has(Trait::source) || def.has(Trait::sampling)) return false;
  const auto samples = def.samples();
  if (def.has(Trait::state) && std::all_of(samples.begin(), samples.end(), has_state)) return false;
  if (kExceptions.contains(def.name)) return false;
  for (const Sample& s : def.samples()) {
    const Graph graph = sample_graph(def, s);
    bool from = false, to = false;
    for (const SampleOperand& o : s.operands) from |= is_plain_float(o.shape);
    for (const Output& o : graph.outputs()) to |= is_plain_float(graph.shape(o.value));
    if (from && to) return true;
  }
  return false;
}

using Values = std::vector<double>;

// The same numbers on every machine; signs and sizes mixed.
class Numbers {
 public:
  double next() {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<double>(state_ >> 11) * 0x1p-53 * 2 - 1;
  }
  Values many(std::size_t n, double scale = 1) {
    Values v(n);
    for (double& x : v) x = scale * next();
    return v;
  }

 private:
  std::uint64_t state_ = 12345;
};

Tensor f64(const std::vector<std::int64_t>& dims, const Values& values) {
  Tensor t = Tensor::zeros(dims, DType::f64);
  std::copy(values.begin(), values.end(), t.mutable_as<double>().begin());
  return t;
}
Values values_of(const Tensor& t) {
  const TensorView v = access::view_of(t);
  Values values(static_cast<std::size_t>(t.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = access::load_at(v, static_cast<std::int64_t>(i));
  return values;
}
double largest(const Values& v) {
  double top = 0;
  for (double x : v) top = std::max(top, std::abs(x));
  return top;
}

// One sample: the op's results weighted by seeds and summed, its gradient graph, and points moved along a direction.
class Case {
 public:
  Case(const OpDef& def, const Sample& sample) : operands_(materialize(sample, 7)) {
    Graph graph = sample_graph(def, sample);
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      const Node& source = graph.nodes()[i];
      names_.push_back(source.name);
      const bool moves = is_plain_float(source.results[0]) && sample.operands[i].fill != Fill::given;
      if (moves && operands_[i].elements() > 0) wrt_.push_back(i);
    }
    for (const Output& o : graph.outputs())
      if (is_plain_float(graph.shape(o.value))) outputs_.push_back(o.value);
    if (wrt_.empty() || outputs_.empty()) return;
    forward_ = std::make_unique<Interpreter>(graph, std::vector<NamedTensor>{}, Arithmetic::f64);
    for (std::size_t i : wrt_) make_generic(i);
    if (!is_finite()) {  // outside the domain of a root, logarithm or power
      for (std::size_t i : wrt_) {
        Values v = values_of(operands_[i]);
        for (double& x : v) x = std::abs(x) + 0.5;
        operands_[i] = f64(operands_[i].dims(), v);
      }
    }
    differentiate(std::move(graph));
  }

  bool usable() const { return forward_ != nullptr && is_finite(); }
  const std::vector<std::size_t>& wrt() const { return wrt_; }

  // Whether the gradient of operand wrt()[w] along a random direction is that of the differences.
  void expect_gradient(std::size_t w, Numbers& random) {
    const std::size_t i = wrt_[w];
    const Values g = values_of(grads_[w]), x = values_of(operands_[i]);
    ASSERT_EQ(g.size(), x.size());
    const Values direction = random.many(x.size());
    double along = 0, size = 0;
    for (std::size_t k = 0; k < g.size(); ++k) along += g[k] * direction[k], size += std::abs(g[k] * direction[k]);
    double error = INFINITY, found = 0;
    const double unit = std::max(largest(x), 1e-3);
    // Smaller steps where a larger one crosses a kink (relu, maxima, sorted neighbours); much smaller ones for steps
    // (round, floor), which are constant in between.
    const double least = size == 0 ? 1e-13 * unit : 1e-8 * unit;
    double allowed = 0;
    for (double h = 1e-4 * unit; error > allowed && h > least; h *= 0.1) {
      found = (at(i, x, direction, h) - at(i, x, direction, -h)) / (2 * h);
      error = std::abs(found - along);
      allowed = tolerance(size, h);
    }
    EXPECT_LE(error, allowed) << names_[i] << ": gradient " << along << ", differences " << found;
  }

 private:
  // 1e-6 of the terms' sizes; and differences of L are exact to 2^-50 of its terms.
  double tolerance(double size, double h) const { return 1e-6 * size + terms_ * 0x1p-50 / h; }

  // Values between the dtype's: no ties, no value on a kink.
  void make_generic(std::size_t i) {
    Values v = values_of(operands_[i]);
    const double top = largest(v), scale = top > 0 ? 0.03 * top : 0.1;
    const Values noise = random_.many(v.size(), scale);
    for (std::size_t k = 0; k < v.size(); ++k) v[k] += noise[k];
    operands_[i] = f64(operands_[i].dims(), v);
  }

  std::vector<Tensor> run(const std::vector<Tensor>& operands) const {
    std::vector<NamedTensor> inputs, results;
    for (std::size_t i = 0; i < operands.size(); ++i) inputs.push_back({names_[i], operands[i]});
    std::vector<Tensor> outputs;
    for (NamedTensor& t : forward_->run(inputs))
      if (t.tensor.dtype() == DType::f64) outputs.push_back(std::move(t.tensor));
    return outputs;
  }
  bool is_finite() const {
    for (const Tensor& t : run(operands_))
      for (double v : values_of(t))
        if (!std::isfinite(v)) return false;
    return true;
  }

  void differentiate(Graph graph) {
    Builder b(graph);
    std::vector<Value> wrt, seeds;
    std::vector<NamedTensor> inputs;
    for (std::size_t i : wrt_) wrt.push_back({static_cast<std::int32_t>(i), 0});
    for (std::size_t i = 0; i < operands_.size(); ++i) inputs.push_back({names_[i], operands_[i]});
    for (std::size_t k = 0; const Tensor& y : run(operands_)) {
      seeds_.push_back(random_.many(static_cast<std::size_t>(y.elements())));
      const std::string name = fmt::format("seed{}", k);
      seeds.push_back(b.input(name, graph.shape(outputs_[k]).with(DType::f32)));
      inputs.push_back({name, f64(y.dims(), seeds_[k])});
      const Values values = values_of(y);
      for (std::size_t n = 0; n < values.size(); ++n) terms_ += std::abs(values[n] * seeds_[k][n]);
      ++k;
    }
    std::vector<Output> outputs;
    for (const Value g : gradients(b, outputs_, wrt, seeds)) outputs.push_back({fmt::format("g{}", outputs.size()), g});
    for (std::size_t k = 0; k < wrt.size(); ++k)
      EXPECT_EQ(graph.shape(outputs[k].value), graph.shape(wrt[k]));
    graph.set_outputs(std::move(outputs));
    for (NamedTensor& t : Interpreter(std::move(graph), {}, Arithmetic::f64).run(inputs))
      grads_.push_back(std::move(t.tensor));
  }

  // L with operand i at x + h direction.
  double at(std::size_t i, const Values& x, const Values& direction, double h) const {
    Values moved = x;
    for (std::size_t k = 0; k < x.size(); ++k) moved[k] += h * direction[k];
    std::vector<Tensor> operands = operands_;
    operands[i] = f64(operands_[i].dims(), moved);
    double sum = 0;
    for (std::size_t k = 0; const Tensor& y : run(operands)) {
      const Values values = values_of(y);
      for (std::size_t n = 0; n < values.size(); ++n) sum += seeds_[k][n] * values[n];
      ++k;
    }
    return sum;
  }

  Numbers random_;
  std::vector<Tensor> operands_, grads_;
  std::vector<std::string> names_;
  std::vector<std::size_t> wrt_;
  std::vector<Value> outputs_;
  std::vector<Values> seeds_;
  std::unique_ptr<Interpreter> forward_;
  double terms_ = 0;
};

// The error of the gradient of a sample's first output with respect to its first operand.
std::optional<ErrorCode> refusal(const OpDef& def, const Sample& sample) {
  Graph graph = sample_graph(def, sample);
  Builder b(graph);
  const Value from[] = {graph.outputs()[0].value}, to[] = {{0, 0}};
  try {
    gradients(b, from, to);
  } catch (const Error& e) {
    return e.code();
  }
  return std::nullopt;
}

class Gradients : public testing::TestWithParam<const OpDef*> {};

TEST_P(Gradients, section12_MatchCentralDifferences) {
  const OpDef& def = *GetParam();
  Numbers random;
  std::map<std::string, int> checked;
  for (const Sample& sample : def.samples()) {
    SCOPED_TRACE(std::string(def.name) + " " + sample.name);
    if (has_state(sample)) continue;
    if (quantises(def, sample)) {
      EXPECT_EQ(refusal(def, sample), ErrorCode::unsupported);
      continue;
    }
    Case c(def, sample);
    if (!c.usable()) continue;
    for (std::size_t w = 0; w < c.wrt().size(); ++w)
      for (int direction = 0; direction < (test::kSanitized ? 1 : 2); ++direction) c.expect_gradient(w, random);
    ++checked[sample.name];
  }
  EXPECT_GE(checked.size(), 3u) << "samples inside the domain";
}

// A state lives on after the step, so nothing of the step knows its gradient.
TEST(GradientRules, section12_TheFormWithAStateHasNone) {
  for (const std::string_view name : {"causal_conv1d", "selective_scan", "ssd_scan", "gated_delta"}) {
    const OpDef& def = *find_op(name);
    EXPECT_NE(def.grad, nullptr) << name;
    for (const Sample& sample : def.samples()) {
      if (!has_state(sample)) continue;
      EXPECT_EQ(refusal(def, sample), ErrorCode::unsupported) << name << " " << sample.name;
    }
  }
}

std::vector<const OpDef*> differentiable_ops() {
  std::vector<const OpDef*> ops;
  for (const OpDef& def : all_ops())
    if (should_have_gradient(def)) ops.push_back(&def);
  return ops;
}

INSTANTIATE_TEST_SUITE_P(AllOps, Gradients, testing::ValuesIn(differentiable_ops()),
                         [](const auto& tested) { return std::string(tested.param->name); });

// An op that comes later is in this list or has a gradient.
TEST(GradientRules, section12_EveryDifferentiableOpHasAGradientOrABody) {
  for (const OpDef* def : differentiable_ops())
    EXPECT_TRUE(def->grad != nullptr || def->decompose != nullptr) << def->name;
  for (const auto& [name, reason] : kExceptions) {
    ASSERT_NE(find_op(name), nullptr) << name;
    EXPECT_EQ(find_op(name)->grad, nullptr) << name << " has a gradient: no exception (" << reason << ")";
  }
}

}  // namespace
}  // namespace rlx
