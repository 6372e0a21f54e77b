#include "compiler/passes/select_rows_up.h"

#include "compiler/passes/cse.h"
#include "compiler/passes/fusion_notes.h"
#include "ir/rewrite.h"
#include "ops/arithmetic.h"
#include "ops/index.h"
#include "ops/matmul.h"
#include "ops/reduction.h"
#include "ops/shape_ops.h"

namespace rlx {
namespace {

// Whether operand i holds a row for each row of the result; weights and vectors over the columns do not.
bool has_rows(const Shape& operand, const Shape& result) {
  return !operand.is_state() && operand.rank() == result.rank() && operand.dim(0) == result.dim(0);
}

// An op along one axis keeps rows apart when that axis is the last.
template <typename Op>
bool along_columns(const Node& node) {
  const auto op = node.as<Op>();
  return op && (op->axis == -1 || op->axis == 1);
}

// Whether row r of the result depends on the rows r of its operands alone. All here have rank 2, as what select_rows
// takes has.
bool keeps_rows_apart(const Node& n) {
  return n.def->has(Trait::row_wise) || n.is<Where>() || along_columns<Softmax>(n) || along_columns<LogSoftmax>(n) ||
         along_columns<Cumulative>(n) || along_columns<Slice>(n) || along_columns<Concat>(n) || along_columns<Pad>(n);
}

// The operands that are selected with the result. Of a product only its input and its residual have rows, though a
// weight may have as many.
std::vector<bool> selected(const Graph& graph, const Node& n) {
  const bool any = n.def->has(Trait::elementwise) || n.is<Concat>();
  const auto linear = n.as<Linear>();
  std::vector<bool> list;
  for (std::size_t i = 0; i < n.inputs.size(); ++i)
    list.push_back((any || i == 0 || (linear && static_cast<int>(i) == linear->residual_at())) &&
                   has_rows(graph.shape(n.inputs[i]), n.results[0]));
  return list;
}

// One level: select_rows(op(x...), i) -> op(select_rows(x, i)...).
bool one_level(Graph& graph, const FusionNotes& notes) {
  Rewriter rewriter(graph);
  return rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    if (!s.node.is<SelectRows>()) return {};
    const Node& made = rewriter.producer(s.node, 0);
    if (!keeps_rows_apart(made) || made.results.size() != 1) return {};
    if (!rewriter.single_use(s.node.inputs[0])) {
      notes.missed(s, [&] { return shared_reason(rewriter.old(), s.node.inputs[0]); });
      return {};
    }
    // With a number of rows that is known, a constant operand may have as many by chance.
    if (made.results[0].dim(0).is_constant()) return {};
    const std::vector<bool> rows = selected(rewriter.old(), made);
    std::vector<Value> operands;
    for (std::size_t i = 0; i < made.inputs.size(); ++i) {
      const DType d = rewriter.old().shape(made.inputs[i]).dtype;
      if (rows[i] && d != DType::f32 && d != DType::xq8) {
        notes.missed(s, [&] { return fmt::format("{} reads rows of {}", made.def->name, name(d)); });
        return {};
      }
    }
    for (std::size_t i = 0; i < made.inputs.size(); ++i) {
      const Value v = rewriter.now(made.inputs[i]);
      operands.push_back(rows[i] ? s.b(SelectRows{}, v, s.inputs[1]) : v);
    }
    return {s.b.graph().add(*made.def, made.attrs, std::move(operands), made.origin)};
  });
}

}  // namespace

bool select_rows_up(Graph& graph, const PassContext& context) {
  bool changed = false;
  // What one round leaves the next may take: near misses are those of the last, which changes nothing.
  const FusionNotes none({context.options, context.backend}, "select_rows_up");
  while (one_level(graph, none)) {
    // A residual stream is selected once for the sum and once for the norm: joined, it has one
    // reader again and can move on.
    cse(graph, context);
    changed = true;
  }
  if (context.fusion != nullptr) one_level(graph, FusionNotes(context, "select_rows_up"));
  return changed;
}

}  // namespace rlx
