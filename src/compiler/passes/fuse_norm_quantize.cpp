#include "compiler/passes/fuse_norm_quantize.h"

#include "compiler/passes/fusion_notes.h"
#include "ir/rewrite.h"
#include "ops/norm.h"
#include "ops/quant.h"

namespace rlx {

bool fuse_norm_quantize(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph);
  const FusionNotes notes(context, "fuse_norm_quantize");
  return rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    if (!s.node.is<QuantizeRows>()) return {};
    const Node& made = rewriter.producer(s.node, 0);
    const auto norm = made.as<RmsNorm>();
    if (!norm) return {};
    if (norm->group != 0) {
      notes.missed(s, [&] { return fmt::format("a norm of groups of {}", norm->group); });
      return {};
    }
    if (!rewriter.single_use(s.node.inputs[0])) {
      notes.missed(s, [&] { return shared_reason(rewriter.old(), s.node.inputs[0]); });
      return {};
    }
    notes.fused(RmsNormQuantize::name, s);
    return {s.b(RmsNormQuantize{.eps = norm->eps, .weight_offset = norm->weight_offset},
                rewriter.now(made.inputs[0]), rewriter.now(made.inputs[1]))};
  });
}

}  // namespace rlx
