#include "compiler/passes/fuse_norm_quantize.h"

#include "ir/rewrite.h"
#include "ops/norm.h"
#include "ops/quant.h"

namespace rlx {

bool fuse_norm_quantize(Graph& graph, const PassContext&) {
  Rewriter rewriter(graph);
  return rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    if (!s.node.is<QuantizeRows>()) return {};
    const Node& made = rewriter.producer(s.node, 0);
    const auto norm = made.as<RmsNorm>();
    if (!norm || norm->group != 0 || !rewriter.single_use(s.node.inputs[0])) return {};
    return {s.b(RmsNormQuantize{.eps = norm->eps, .weight_offset = norm->weight_offset},
                rewriter.now(made.inputs[0]), rewriter.now(made.inputs[1]))};
  });
}

}  // namespace rlx
