#include "flow/blocks/norm.h"

#include "ops/norm.h"

namespace rlx {

FlowStage rms_norm(NormSpec spec) {
  return [spec = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    const Value x = state.hidden.need(ctx);
    const Value weight = ctx.load_vector(spec.weight, spec.size);
    state.hidden.set(
        ctx.hir()(RmsNorm{.eps = spec.eps, .weight_offset = spec.weight_offset}, x, weight));
  };
}

}  // namespace rlx
