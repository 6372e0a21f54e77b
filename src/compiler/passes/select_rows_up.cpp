#include "compiler/passes/select_rows_up.h"

#include "compiler/passes/cse.h"
#include "ir/rewrite.h"
#include "ops/index.h"

namespace rlx {
namespace {

// Operand i of a row-wise node is selected too when its rows are the node's rows; weights and row
// vectors are not.
bool has_rows(const Shape& operand, const Shape& result) {
  return !operand.is_state() && operand.rank() == result.rank() && operand.rank() >= 2 &&
         operand.dim(0) == result.dim(0);
}

// One level: select_rows(op(x...), i) -> op(select_rows(x, i)...).
bool one_level(Graph& graph) {
  Rewriter rewriter(graph);
  return rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    if (!s.node.is<SelectRows>()) return {};
    const Node& made = rewriter.producer(s.node, 0);
    if (!made.def->has(Trait::row_wise) || made.results.size() != 1 ||
        !rewriter.single_use(s.node.inputs[0]))
      return {};
    const Shape& result = made.results[0];
    // A weight [n, k] whose n happens to equal the row count must not be taken for rows: rows of
    // activations are symbolic.
    if (result.dim(0).is_constant() || result.rank() < 2) return {};
    std::vector<Value> operands;
    for (std::size_t i = 0; i < made.inputs.size(); ++i) {
      const Value v = rewriter.now(made.inputs[i]);
      operands.push_back(has_rows(rewriter.old().shape(made.inputs[i]), result)
                             ? s.b(SelectRows{}, v, s.inputs[1])
                             : v);
    }
    return {s.b.graph().add(*made.def, made.attrs, std::move(operands), made.origin)};
  });
}

}  // namespace

bool select_rows_up(Graph& graph, const PassContext& context) {
  bool changed = false;
  while (one_level(graph)) {
    // A residual stream is selected once for the sum and once for the norm: joined, it has one
    // reader again and can move on.
    cse(graph, context);
    changed = true;
  }
  return changed;
}

}  // namespace rlx
