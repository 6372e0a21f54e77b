#include "flow/blocks/mlp.h"

#include "flow/blocks/linear.h"
#include "ops/block.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"

namespace rlx {

FlowStage gated_mlp(MlpSpec spec) {
  return [s = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    Builder& b = ctx.hir();
    const Value x = state.hidden.need(ctx);
    const Value gate = ctx.load_matrix(s.gate, s.inner, s.hidden);
    const Value up = ctx.load_matrix(s.up, s.inner, s.hidden);
    const Value down = ctx.load_matrix(s.down, s.hidden, s.inner);
    if (s.gate_bias.empty()) {
      state.hidden.set(b(GatedMlp{.act = s.act}, x, gate, up, down));
      return;
    }
    const Value g =
        b(Linear{.act = s.act, .bias = true}, x, gate, ctx.load_vector(s.gate_bias, s.inner));
    const Value u = b(Linear{.bias = true}, x, up, ctx.load_vector(s.up_bias, s.inner));
    const Value down_bias = ctx.load_vector(s.down_bias, s.hidden);
    state.hidden.set(b(Linear{.bias = true}, b(Mul{}, g, u), down, down_bias));
  };
}

FlowStage plain_mlp(PlainMlpSpec spec) {
  return [s = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    const Value x = state.hidden.need(ctx);
    const Value inner = emit_linear(
        ctx, x, {.weight = s.up, .bias = s.up_bias, .in = s.hidden, .out = s.inner, .act = s.act});
    state.hidden.set(
        emit_linear(ctx, inner, {.weight = s.down, .bias = s.down_bias, .in = s.inner, .out = s.hidden}));
  };
}

}  // namespace rlx
