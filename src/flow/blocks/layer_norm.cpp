#include "flow/blocks/layer_norm.h"

#include "ops/reduction.h"

namespace rlx {

FlowStage layer_norm(LayerNormSpec spec) {
  return [spec = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    const Value x = state.hidden.need(ctx);
    const Value weight = ctx.load_vector(spec.weight, spec.size);
    const LayerNorm norm{.eps = spec.eps, .bias = !spec.bias.empty()};
    state.hidden.set(norm.bias ? ctx.hir()(norm, x, weight, ctx.load_vector(spec.bias, spec.size))
                               : ctx.hir()(norm, x, weight));
  };
}

}  // namespace rlx
