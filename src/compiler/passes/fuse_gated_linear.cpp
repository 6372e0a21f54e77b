#include "compiler/passes/fuse_gated_linear.h"

#include "ir/rewrite.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"

namespace rlx {

bool fuse_gated_linear(Graph& graph, const PassContext&) {
  Rewriter rewriter(graph);
  return rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    if (!s.node.is<Mul>()) return {};
    for (std::size_t i = 0; i < 2; ++i) {
      const Node& gate = rewriter.producer(s.node, i);
      const Node& up = rewriter.producer(s.node, 1 - i);
      const auto g = gate.as<Linear>(), u = up.as<Linear>();
      if (!g || !u || g->act == Act::none || u->act != Act::none || g->bias || u->bias ||
          g->residual || u->residual)
        continue;
      if (gate.inputs[0] != up.inputs[0] || !rewriter.single_use(s.node.inputs[0]) ||
          !rewriter.single_use(s.node.inputs[1]))
        continue;
      // One kernel reads both weights: one storage type and one shape.
      if (!(rewriter.old().shape(gate.inputs[1]) == rewriter.old().shape(up.inputs[1]))) continue;
      return {s.b(GatedLinear{.act = g->act}, rewriter.now(gate.inputs[0]),
                  rewriter.now(gate.inputs[1]), rewriter.now(up.inputs[1]))};
    }
    return {};
  });
}

}  // namespace rlx
