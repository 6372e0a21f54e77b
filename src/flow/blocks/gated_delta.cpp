#include "flow/blocks/gated_delta.h"

#include <cmath>

#include "flow/blocks/mamba2.h"
#include "flow/blocks/short_conv.h"
#include "ops/arithmetic.h"
#include "ops/elementwise.h"
#include "ops/head_lanes.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/recurrent.h"

namespace rlx {
namespace {

std::int64_t key_lanes(const GatedDeltaSpec& s) { return s.key_heads * s.key_dim; }
std::int64_t value_lanes(const GatedDeltaSpec& s) { return s.heads * s.value_dim; }

struct DeltaInputs {
  Value q, k, v, z, b, a;
};

DeltaInputs stored_apart(FlowCtx& ctx, const GatedDeltaSpec& s, Value x) {
  const std::int64_t keys = key_lanes(s), values = value_lanes(s);
  const LinearSpec qkv{.weight = s.in_qkv, .in = s.hidden, .out = 2 * keys + values};
  return {project_rows(ctx, x, qkv, {0, keys}),
          project_rows(ctx, x, qkv, {keys, keys}),
          project_rows(ctx, x, qkv, {2 * keys, values}),
          emit_linear(ctx, x, {.weight = s.in_z, .in = s.hidden, .out = values}),
          emit_linear(ctx, x, {.weight = s.in_b, .in = s.hidden, .out = s.heads}),
          emit_linear(ctx, x, {.weight = s.in_a, .in = s.hidden, .out = s.heads})};
}

DeltaInputs stored_by_heads(FlowCtx& ctx, const GatedDeltaSpec& s, Value x) {
  Builder& b = ctx.hir();
  const std::int64_t group = s.heads / s.key_heads, values = group * s.value_dim;
  const std::int64_t lanes = 2 * key_lanes(s) + 2 * value_lanes(s);
  const Value qkvz = emit_linear(ctx, x, {.weight = s.in_qkvz, .in = s.hidden, .out = lanes});
  const Value ba = emit_linear(ctx, x, {.weight = s.in_ba, .in = s.hidden, .out = 2 * s.heads});
  return {lanes_of_heads(b, qkvz, s.key_heads, 0, s.key_dim),
          lanes_of_heads(b, qkvz, s.key_heads, s.key_dim, s.key_dim),
          lanes_of_heads(b, qkvz, s.key_heads, 2 * s.key_dim, values),
          lanes_of_heads(b, qkvz, s.key_heads, 2 * s.key_dim + values, values),
          lanes_of_heads(b, ba, s.key_heads, 0, group),
          lanes_of_heads(b, ba, s.key_heads, group, group)};
}

void fill_slots(FlowCtx& ctx, FlowState& state, const GatedDeltaSpec& s) {
  Builder& b = ctx.hir();
  const Value x = state.hidden.need(ctx);
  const DeltaInputs in = s.in_qkv.empty() ? stored_by_heads(ctx, s, x) : stored_apart(ctx, s, x);
  const std::int64_t keys = key_lanes(s), values = value_lanes(s);
  const auto convolved = [&](std::string_view name, Value v, FlowCtx::RowRange part) {
    return causal_conv(ctx, state, v,
                       {.state = fmt::format("conv_{}.{}", name, s.layer),
                        .weight = s.conv,
                        .bias = "",
                        .channels = 2 * keys + values,
                        .taps = s.taps,
                        .part = part,
                        .act = Act::silu});
  };
  state.delta.set("q", convolved("q", in.q, {0, keys}));
  state.delta.set("k", convolved("k", in.k, {keys, keys}));
  state.delta.set("v", convolved("v", in.v, {2 * keys, values}));
  state.delta.set("z", in.z);
  const Value step = b(Unary{.fn = UnaryFunction::softplus},
                       b(Add{}, in.a, load_flat(ctx, s.dt_bias, s.heads)));
  state.delta.set("g", b(Mul{}, step, load_decay(ctx, s.a_log, DecayForm::logarithm, {s.heads})));
  state.delta.set("beta", b(Unary{.fn = UnaryFunction::sigmoid}, in.b));
}

void mix_slots(FlowCtx& ctx, FlowState& state, const GatedDeltaSpec& s) {
  Builder& b = ctx.hir();
  std::vector<Value> operands;
  for (const char* name : {"q", "k", "v", "g", "beta"})
    operands.push_back(state.delta.need(ctx, name));
  for (const Value v : recurrent_operands(ctx, state, fmt::format("delta.{}", s.layer),
                                          {s.heads, s.key_dim, s.value_dim}))
    operands.push_back(v);
  const GatedDelta rule{.heads = static_cast<std::int32_t>(s.heads),
                        .key_heads = static_cast<std::int32_t>(s.key_heads),
                        .scale = 1.0f / std::sqrt(static_cast<float>(s.key_dim)),
                        .l2_norm = true};
  const RmsNorm norm{.eps = s.eps, .group = static_cast<std::int32_t>(s.value_dim)};
  const Value y = b(norm, b.emit(rule, std::move(operands)), ctx.load_vector(s.norm, s.value_dim));
  const Value gate = b(Activation{.act = Act::silu}, state.delta.need(ctx, "z"));
  state.hidden.set(
      emit_linear(ctx, b(Mul{}, y, gate), {.weight = s.out_proj, .in = value_lanes(s), .out = s.hidden}));
}

}  // namespace

FlowStage gated_delta_inputs(GatedDeltaSpec spec) {
  return [s = std::move(spec)](FlowCtx& ctx, FlowState& state) { fill_slots(ctx, state, s); };
}

FlowStage gated_delta_mix(GatedDeltaSpec spec) {
  return [s = std::move(spec)](FlowCtx& ctx, FlowState& state) { mix_slots(ctx, state, s); };
}

FlowStage gated_delta_net(GatedDeltaSpec spec) {
  return [s = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    fill_slots(ctx, state, s);
    mix_slots(ctx, state, s);
  };
}

}  // namespace rlx
