#include "flow/blocks/short_conv.h"

#include "ops/elementwise.h"
#include "ops/recurrent.h"

namespace rlx {
namespace {

// Rows of [channels, taps] as [taps, count]: lanes side by side.
std::vector<float> taps_of(const std::vector<float>& stored, const CausalConvSpec& s) {
  const auto taps = static_cast<std::size_t>(s.taps), count = static_cast<std::size_t>(s.part.count),
             first = static_cast<std::size_t>(s.part.first);
  if (stored.empty()) return {};
  std::vector<float> lanes(taps * count);
  for (std::size_t c = 0; c < count; ++c)
    for (std::size_t j = 0; j < taps; ++j) lanes[j * count + c] = stored[(first + c) * taps + j];
  return lanes;
}

}  // namespace

std::vector<Value> recurrent_operands(FlowCtx& ctx, const FlowState& state, std::string_view name,
                                      std::initializer_list<std::int64_t> dims) {
  return {ctx.state(name, Shape::recurrent_state(dims)), state.inputs.need(ctx, "seq_start"),
          state.inputs.need(ctx, "past"), state.inputs.need(ctx, "slot")};
}

Value causal_conv(FlowCtx& ctx, const FlowState& state, Value x, const CausalConvSpec& s) {
  const std::string range = fmt::format("[{}:{}]", s.part.first, s.part.first + s.part.count);
  std::vector<Value> operands = {
      x, ctx.synth_param(s.weight + ".taps" + range,
                         taps_of(ctx.read_values(s.weight, {s.channels, s.taps}), s),
                         Shape({s.taps, s.part.count}, DType::f32))};
  if (!s.bias.empty()) operands.push_back(vector_part(ctx, s.bias, s.channels, s.part));
  for (const Value v : recurrent_operands(ctx, state, s.state, {s.taps - 1, s.part.count}))
    operands.push_back(v);
  return ctx.hir().emit(CausalConv1d{.act = s.act, .bias = !s.bias.empty()}, std::move(operands));
}

FlowStage short_conv(ShortConvSpec spec) {
  return [s = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    Builder& b = ctx.hir();
    const Value x = state.hidden.need(ctx);
    const LinearSpec in{.weight = s.in_proj, .bias = s.in_bias, .in = s.hidden, .out = 3 * s.hidden};
    const Value before = project_rows(ctx, x, in, {0, s.hidden}),
                after = project_rows(ctx, x, in, {s.hidden, s.hidden}),
                value = project_rows(ctx, x, in, {2 * s.hidden, s.hidden});
    const Value mixed = causal_conv(ctx, state, b(Mul{}, before, value),
                                    {.state = fmt::format("conv.{}", s.layer),
                                     .weight = s.conv,
                                     .bias = s.conv_bias,
                                     .channels = s.hidden,
                                     .taps = s.taps,
                                     .part = {0, s.hidden}});
    state.hidden.set(emit_linear(ctx, b(Mul{}, after, mixed),
                                 {.weight = s.out_proj, .bias = s.out_bias, .in = s.hidden, .out = s.hidden}));
  };
}

}  // namespace rlx
