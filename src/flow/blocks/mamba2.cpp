#include "flow/blocks/mamba2.h"

#include <cmath>
#include <limits>

#include "base/checked.h"
#include "base/error.h"
#include "flow/blocks/short_conv.h"
#include "ops/elementwise.h"
#include "ops/norm.h"
#include "ops/recurrent.h"

namespace rlx {
namespace {

std::vector<float> exchanged(const std::vector<float>& values, std::size_t rows) {
  std::vector<float> out(values.size());
  const std::size_t columns = values.size() / rows;
  for (std::size_t i = 0; i < values.size(); ++i) out[i % columns * rows + i / columns] = values[i];
  return out;
}

// An RMS norm of groups of lanes, each lane with its own weight.
Value grouped_norm(FlowCtx& ctx, const Mamba2Spec& s, Value x) {
  const std::int64_t inner = s.heads * s.head_dim, group = inner / s.norm_groups;
  // Stored as one vector, or as a row for each group.
  const WeightRef* stored = ctx.weights().find(s.norm);
  const bool by_groups = s.norm_groups > 1 && stored != nullptr && stored->shape.size() == 2;
  const std::vector<std::int64_t> dims = by_groups ? std::vector{s.norm_groups, group} : std::vector{inner};
  const Value weight =
      ctx.synth_param(s.norm + ".flat", ctx.read_values(s.norm, dims), Shape({inner}, DType::f32));
  if (s.norm_groups == 1) return ctx.hir()(RmsNorm{.eps = s.eps}, x, weight);
  const Value ones = ctx.synth_param(s.norm + ".ones",
                                     std::vector<float>(static_cast<std::size_t>(group), 1.0f),
                                     Shape({group}, DType::f32));
  const RmsNorm norm{.eps = s.eps, .group = static_cast<std::int32_t>(group)};
  return ctx.hir()(Mul{}, ctx.hir()(norm, x, ones), weight);
}

Value gated(FlowCtx& ctx, const Mamba2Spec& s, Value y, Value gate) {
  Builder& b = ctx.hir();
  if (s.norm.empty()) return b(Mul{}, y, gate);
  if (s.norm_before_gate) return b(Mul{}, grouped_norm(ctx, s, y), gate);
  return grouped_norm(ctx, s, b(Mul{}, y, gate));
}

}  // namespace

Value load_decay(FlowCtx& ctx, const std::string& key, DecayForm form,
                 std::vector<std::int64_t> dims, bool transpose) {
  std::vector<float> values = ctx.read_values(key, dims);
  if (form == DecayForm::logarithm)
    for (float& v : values) v = -std::exp(v);
  if (transpose) {
    if (!values.empty()) values = exchanged(values, static_cast<std::size_t>(dims[0]));
    std::swap(dims[0], dims[1]);
  }
  const std::vector<Dim> sizes(dims.begin(), dims.end());
  return ctx.synth_param(key + ".rate", std::move(values), Shape(std::span<const Dim>(sizes), DType::f32));
}

Value load_flat(FlowCtx& ctx, const std::string& key, std::int64_t n) {
  return ctx.synth_param(key + ".flat", ctx.read_values(key, {n}), Shape({n}, DType::f32));
}

FlowStage mamba2(Mamba2Spec spec) {
  return [s = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    const Value hidden = state.hidden.need(ctx);
    const std::int64_t inner = s.heads * s.head_dim,
                       shared = require(checked_mul(s.groups, s.states), "groups * states");
    if (shared > std::numeric_limits<std::int32_t>::max())
      fail(ErrorCode::limit, "{}: {} groups of {} states: expected at most 2^31 - 1 lanes", ctx.stage(),
           s.groups, s.states);
    const std::int64_t channels = inner + 2 * shared;
    const LinearSpec in{
        .weight = s.in_proj, .bias = s.in_bias, .in = s.hidden, .out = inner + channels + s.heads};
    // The projection's rows: z, x, b, c, dt; x, b and c go through the convolution.
    LinearSpec gate_in = in;
    gate_in.act = Act::silu;
    const Value gate = project_rows(ctx, hidden, gate_in, {0, inner});
    const auto convolved = [&](std::string_view name, std::int64_t first, std::int64_t count) {
      return causal_conv(ctx, state, project_rows(ctx, hidden, in, {inner + first, count}),
                         {.state = fmt::format("conv_{}.{}", name, s.layer),
                          .weight = s.conv,
                          .bias = s.conv_bias,
                          .channels = channels,
                          .taps = s.taps,
                          .part = {first, count},
                          .act = s.act});
    };
    const Value x = convolved("x", 0, inner), b = convolved("b", inner, shared),
                c = convolved("c", inner + shared, shared);
    const Value dt = project_rows(ctx, hidden, in, {inner + channels, s.heads});
    std::vector<Value> operands = {x,
                                   dt,
                                   load_decay(ctx, s.a, s.decay, {s.heads}),
                                   b,
                                   c,
                                   load_flat(ctx, s.d, s.heads),
                                   load_flat(ctx, s.dt_bias, s.heads)};
    for (const Value v : recurrent_operands(ctx, state, fmt::format("ssm.{}", s.layer),
                                            {s.heads, s.states, s.head_dim}))
      operands.push_back(v);
    const SsdScan scan{.heads = static_cast<std::int32_t>(s.heads),
                       .groups = static_cast<std::int32_t>(s.groups),
                       .dt_min = s.dt_min,
                       .dt_max = s.dt_max};
    const Value y = ctx.hir().emit(scan, std::move(operands));
    state.hidden.set(emit_linear(ctx, gated(ctx, s, y, gate),
                                 {.weight = s.out_proj, .bias = s.out_bias, .in = inner, .out = s.hidden}));
  };
}

}  // namespace rlx
