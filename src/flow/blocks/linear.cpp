#include "flow/blocks/linear.h"

#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/matmul.h"

namespace rlx {
namespace {

Value emit_product(FlowCtx& ctx, Value x, Value weight, const LinearSpec& s) {
  const Linear product{.act = s.act, .bias = !s.bias.empty()};
  return product.bias ? ctx.hir()(product, x, weight, ctx.load_vector(s.bias, s.out)) : ctx.hir()(product, x, weight);
}

}  // namespace

Value emit_linear(FlowCtx& ctx, Value x, const LinearSpec& s) {
  return emit_product(ctx, x, ctx.load_matrix(s.weight, s.out, s.in), s);
}

FlowStage linear(LinearSpec spec) {
  return [s = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    const Value x = state.hidden.need(ctx);
    const Value weight = s.weight.empty() ? state.embedding.need(ctx) : ctx.load_matrix(s.weight, s.out, s.in);
    state.hidden.set(emit_product(ctx, x, weight, s));
  };
}

FlowStage scale_hidden(float factor) {
  return [factor](FlowCtx& ctx, FlowState& state) {
    const Value x = state.hidden.need(ctx);
    state.hidden.set(factor == 1.0f ? x : ctx.hir()(Scale{.factor = factor}, x));
  };
}

FlowStage wanted_rows() {
  return [](FlowCtx& ctx, FlowState& state) {
    const Value x = state.hidden.need(ctx);
    state.hidden.set(ctx.hir()(SelectRows{}, x, state.inputs.need(ctx, "out_rows")));
  };
}

}  // namespace rlx
