#include "flow/blocks/pooling.h"

#include "flow/blocks/linear.h"
#include "ops/arithmetic.h"

namespace rlx {

FlowStage pool_hidden(PoolingSpec spec) {
  return [s = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    const Value x = state.hidden.need(ctx);
    Value pooled = ctx.hir()(PoolSequences{.kind = s.kind}, x, state.inputs.need(ctx, "seq_start"));
    if (!s.weight.empty()) {
      pooled = emit_linear(ctx, pooled, {.weight = s.weight, .bias = s.bias, .in = s.hidden, .out = s.hidden});
      pooled = ctx.hir()(Unary{.fn = UnaryFunction::tanh}, pooled);
    }
    state.hidden.set(pooled);
  };
}

}  // namespace rlx
