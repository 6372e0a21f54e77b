#include "flow/blocks/lm_head.h"

#include "ops/block.h"

namespace rlx {

FlowStage lm_head(LmHeadSpec spec) {
  return [s = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    const Value x = state.hidden.need(ctx);
    const Value out_rows = state.inputs.need(ctx, "out_rows");
    const Value norm = ctx.load_vector(s.norm, s.hidden);
    const Value weight =
        s.weight.empty() ? state.embedding.need(ctx) : ctx.load_matrix(s.weight, s.vocab, s.hidden);
    const LmHead head{.eps = s.eps, .weight_offset = s.weight_offset, .softcap = s.softcap};
    state.hidden.set(ctx.hir()(head, x, norm, weight, out_rows));
  };
}

}  // namespace rlx
