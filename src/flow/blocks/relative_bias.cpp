#include "flow/blocks/relative_bias.h"

#include "ops/dense_attention.h"

namespace rlx {

FlowStage relative_bias(RelativeBiasSpec spec) {
  return [s = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    const Value table = ctx.load_table(s.weight, {s.buckets, s.heads}, {s.buckets, s.heads});
    const RelativeBias bias{.max_distance = static_cast<std::int32_t>(s.max_distance),
                            .bidirectional = s.bidirectional};
    state.nodes.set(s.node, ctx.hir()(bias, table));
  };
}

}  // namespace rlx
