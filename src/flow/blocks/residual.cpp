#include "flow/blocks/residual.h"

#include "ops/elementwise.h"

namespace rlx {

FlowStage residual_save() {
  return [](FlowCtx& ctx, FlowState& state) { state.residuals.push_back(state.hidden.need(ctx)); };
}

FlowStage residual_add(float scale) {
  return [scale](FlowCtx& ctx, FlowState& state) {
    const Value residual = state.pop_residual(ctx);
    Value x = state.hidden.need(ctx);
    if (scale != 1.0f) x = ctx.hir()(Scale{.factor = scale}, x);
    state.hidden.set(ctx.hir()(Add{}, residual, x));
  };
}

}  // namespace rlx
