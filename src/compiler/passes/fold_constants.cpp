#include "compiler/passes/fold_constants.h"

#include <algorithm>

#include "device/view.h"
#include "ir/rewrite.h"
#include "ir/source.h"
#include "ops/control.h"
#include "ops/interpret.h"

namespace rlx {
namespace {

// Operands and results of a node that is folded, together. The interpreter computes in double at some 10^8 operations a
// second, and what it gives stands in every artefact: three matrices of 295 x 295 take a tenth of a second here, and a
// broadcast that makes a large array of one value is cheaper to do than to load.
constexpr std::int64_t kMaxFoldBytes = std::int64_t{1} << 20;

// Of all nodes that a pass folds: about a second. A convolution of 0.8 MiB may be 4 * 10^9.
constexpr std::int64_t kMaxFoldWork = 100'000'000;

// An upper bound of the operations: in products and reductions each element may meet each of another operand.
std::int64_t fold_work(const Rewriter::Site& s) {
  std::vector<std::int64_t> elements;
  for (Value v : s.inputs) elements.push_back(*s.b.shape(v).elements().constant());
  for (const Shape& r : s.node.results) elements.push_back(*r.elements().constant());
  std::sort(elements.rbegin(), elements.rend());
  const bool pairs = s.node.def->has(Trait::compute) || s.node.def->has(Trait::reduction);
  return pairs && elements.size() > 1 ? elements[0] * elements[1] : elements[0];  // each below 2^21
}

bool is_plain(const Shape& s) {
  return !s.is_state() && s.layout == Layout::plain && s.dtype != DType::xq8 &&
         std::all_of(s.dims().begin(), s.dims().end(), [](Dim d) { return d.is_constant(); });
}

bool can_fold(const Rewriter::Site& s) {
  const OpDef& def = *s.node.def;
  // A loop may run for any time. Sampling reads counters that a step gives.
  if (def.has(Trait::source) || def.has(Trait::state) || def.has(Trait::sampling)) return false;
  if (def.control != nullptr || s.inputs.empty()) return false;
  std::int64_t bytes = 0;
  const auto add = [&](const Shape& shape) {
    if (!is_plain(shape)) return false;
    bytes += std::min(view_bytes(shape, {}), kMaxFoldBytes + 1);
    return true;
  };
  for (Value v : s.inputs)
    if (s.b.graph().constant_of(v) == nullptr || !add(s.b.shape(v))) return false;
  return std::all_of(s.node.results.begin(), s.node.results.end(), add) && bytes <= kMaxFoldBytes;
}

// The node alone, over inputs, run on the values of its operands.
std::vector<NamedTensor> evaluate(const Rewriter::Site& s) {
  Graph one("fold", s.b.graph().stage);
  Builder b(one);
  std::vector<Value> inputs;
  std::vector<NamedTensor> values;
  for (Value v : s.inputs) {
    values.push_back({fmt::format("operand{}", values.size()), s.b.graph().constant_of(v)->value});
    inputs.push_back(b.input(values.back().name, s.b.shape(v)));
  }
  const Value made = one.add(*s.node.def, s.node.attrs, std::move(inputs), s.node.origin);
  std::vector<Output> outputs;
  for (std::size_t i = 0; i < one.node(made).results.size(); ++i)
    outputs.push_back({fmt::format("y{}", i), b.result(made, static_cast<int>(i))});
  one.set_outputs(std::move(outputs));
  return Interpreter(std::move(one)).run(values);
}

// The branch of an `if` whose condition is known.
Rewriter::Answer take_branch(const Rewriter::Site& s, const If& op) {
  const ConstantData* condition = s.b.graph().constant_of(s.inputs[0]);
  if (condition == nullptr) return {};
  const Graph& branch =
      s.b.graph().subgraph(condition->value.as<std::uint8_t>()[0] != 0 ? op.then_graph : op.else_graph);
  std::vector<std::vector<Value>> now;
  std::size_t next = 1;
  for (const Node& n : branch.nodes()) {
    if (n.is<Input>()) {
      now.push_back({s.inputs[next++]});
      continue;
    }
    std::vector<Value> inputs;
    for (Value v : n.inputs) inputs.push_back(now[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)]);
    const Value made = s.b.graph().import_node(branch, n, std::move(inputs));
    now.emplace_back();
    for (std::size_t k = 0; k < n.results.size(); ++k) now.back().push_back({made.node, static_cast<std::int32_t>(k)});
  }
  Rewriter::Answer results;
  for (const Output& o : branch.outputs()) {
    const Value v = now[static_cast<std::size_t>(o.value.node)][static_cast<std::size_t>(o.value.index)];
    // Equal only under a check that waits for the sizes.
    if (!(s.b.shape(v) == s.node.results[results.size()])) return {};
    results.push_back(v);
  }
  return results;
}

}  // namespace

bool fold_constants(Graph& graph, const PassContext& context) {
  // Most graphs have none: nothing to build anew then.
  const auto is_constant = [](const Node& n) { return n.is<Constant>(); };
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), is_constant)) return false;
  bool changed = false;
  std::int64_t work_left = kMaxFoldWork;
  // A branch that was taken may hold the next node to fold.
  for (;;) {
    Rewriter rewriter(graph);
    const bool again = rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
      if (const auto branch = s.node.as<If>()) return take_branch(s, *branch);
      if (!can_fold(s)) return {};
      const std::int64_t work = fold_work(s);
      if (work > work_left) return {};
      work_left -= work;
      try {
        Rewriter::Answer results;
        for (const NamedTensor& t : evaluate(s)) results.push_back(s.b.constant(t.tensor));
        if (context.report != nullptr)
          context.report->rows.push_back({s.node.origin.empty() ? fmt::format("%{}", s.index) : s.node.origin,
                                          std::string(s.node.def->name), DispatchKind::rewritten, "",
                                          "folded: all of its operands are constants"});
        return results;
      } catch (const Error&) {
        return {};  // an index outside its range: an error of the step that reaches it, if one does
      }
    });
    if (!again) return changed;
    changed = true;
  }
}

}  // namespace rlx
