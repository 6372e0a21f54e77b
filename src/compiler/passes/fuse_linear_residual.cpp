#include "compiler/passes/fuse_linear_residual.h"

#include "ir/rewrite.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"

namespace rlx {

bool fuse_linear_residual(Graph& graph, const PassContext&) {
  Rewriter rewriter(graph);
  return rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    if (!s.node.is<Add>()) return {};
    for (std::size_t i = 0; i < 2; ++i) {
      auto linear = rewriter.producer(s.node, i).as<Linear>();
      const Shape& sum = rewriter.old().shape(s.node.inputs[i]);
      if (!linear || linear->residual || !rewriter.single_use(s.node.inputs[i])) continue;
      if (!(rewriter.old().shape(s.node.inputs[1 - i]) == sum)) continue;
      std::vector<Value> operands = rewriter.now(rewriter.producer(s.node, i).inputs);
      operands.push_back(s.inputs[1 - i]);
      linear->residual = true;
      return {s.b.emit(*linear, std::move(operands))};
    }
    return {};
  });
}

}  // namespace rlx
