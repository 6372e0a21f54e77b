#include "flow/blocks/mamba.h"

#include "flow/blocks/short_conv.h"
#include "ops/elementwise.h"
#include "ops/norm.h"
#include "ops/recurrent.h"

namespace rlx {
namespace {

Value inner_norm(FlowCtx& ctx, const MambaSpec& s, std::string_view name, Value x, std::int64_t n) {
  if (!s.inner_norm) return x;
  const Value ones = ctx.synth_param(fmt::format("{}.{}.ones", s.x_proj, name),
                                     std::vector<float>(static_cast<std::size_t>(n), 1.0f),
                                     Shape({n}, DType::f32));
  return ctx.hir()(RmsNorm{.eps = s.inner_eps}, x, ones);
}

}  // namespace

FlowStage mamba(MambaSpec spec) {
  return [s = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    const Value hidden = state.hidden.need(ctx);
    const LinearSpec in{.weight = s.in_proj, .bias = s.in_bias, .in = s.hidden, .out = 2 * s.inner};
    const Value x = causal_conv(ctx, state, project_rows(ctx, hidden, in, {0, s.inner}),
                                {.state = fmt::format("conv_x.{}", s.layer),
                                 .weight = s.conv,
                                 .bias = s.conv_bias,
                                 .channels = s.inner,
                                 .taps = s.taps,
                                 .part = {0, s.inner},
                                 .act = s.act});
    LinearSpec gate_in = in;
    gate_in.act = s.act;
    const Value gate = project_rows(ctx, hidden, gate_in, {s.inner, s.inner});
    const LinearSpec select{.weight = s.x_proj, .in = s.inner, .out = s.rank + 2 * s.states};
    const auto selected = [&](std::string_view name, std::int64_t first, std::int64_t count) {
      return inner_norm(ctx, s, name, project_rows(ctx, x, select, {first, count}), count);
    };
    const Value rank = selected("dt", 0, s.rank), b = selected("b", s.rank, s.states),
                c = selected("c", s.rank + s.states, s.states);
    const Value dt =
        emit_linear(ctx, rank, {.weight = s.dt_proj, .bias = s.dt_bias, .in = s.rank, .out = s.inner});
    std::vector<Value> operands = {
        x, dt, load_decay(ctx, s.a, s.decay, {s.inner, s.states}, true), b, c,
        load_flat(ctx, s.d, s.inner)};
    for (const Value v :
         recurrent_operands(ctx, state, fmt::format("ssm.{}", s.layer), {s.states, s.inner}))
      operands.push_back(v);
    const Value y = ctx.hir().emit(SelectiveScan{}, std::move(operands));
    state.hidden.set(emit_linear(ctx, ctx.hir()(Mul{}, y, gate),
                                 {.weight = s.out_proj, .bias = s.out_bias, .in = s.inner, .out = s.hidden}));
  };
}

}  // namespace rlx
