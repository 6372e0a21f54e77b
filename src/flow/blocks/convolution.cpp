#include "flow/blocks/convolution.h"

#include <cmath>

#include "ops/plane_conv.h"
#include "ops/shape_ops.h"
#include "ops/winograd_conv.h"

namespace rlx {
namespace {

struct FoldedConv {
  // weight: [out, kernel, kernel, in]. Empty: a tensor is missing, which finish() reports.
  std::vector<float> weight, bias;
};

FoldedConv fold(FlowCtx& ctx, const ConvNormSpec& s) {
  FoldedConv f;
  const std::vector<float> weight = ctx.read_values(s.weight, {s.out, s.in, s.kernel, s.kernel});
  const std::vector<float> scale = ctx.read_vector(s.norm + ".weight", s.out),
                           shift = ctx.read_vector(s.norm + ".bias", s.out),
                           mean = ctx.read_vector(s.norm + ".running_mean", s.out),
                           variance = ctx.read_vector(s.norm + ".running_var", s.out);
  if (weight.empty() || scale.empty() || shift.empty() || mean.empty() || variance.empty()) return {};
  const auto in = static_cast<std::size_t>(s.in), taps = static_cast<std::size_t>(s.kernel * s.kernel);
  f.weight.resize(weight.size());
  for (std::size_t o = 0; o < scale.size(); ++o) {
    const double gain = double{scale[o]} / std::sqrt(double{variance[o]} + double{s.eps});
    for (std::size_t c = 0; c < in; ++c)
      for (std::size_t t = 0; t < taps; ++t)
        f.weight[(o * taps + t) * in + c] = static_cast<float>(weight[(o * in + c) * taps + t] * gain);
    f.bias.push_back(static_cast<float>(double{shift[o]} - double{mean[o]} * gain));
  }
  return f;
}

// A line of taps of so few channels is shorter than what a kernel sets up for each tap: with the padding in memory the
// line is one run (PlaneConv).
constexpr std::int64_t kFewChannels = 16;

// Whether the 16 matrices of WinogradConv take less time than the windows of PlaneConv (ResNet-50, two threads: 18.9 ms
// without, 16.6 with). With more channels their weights, 16/9 of the plain ones, no longer stay in the caches (17.1 ms
// with those of 512 channels as well); fewer than 64 were not measured, and the transforms count for more there.
bool suits_winograd(const ConvNormSpec& s) {
  constexpr std::int64_t kLeast = 32, kMost = 256;
  return s.kernel == 3 && s.stride == 1 && s.in >= kLeast && s.in <= kMost && s.out % 16 == 0 && s.out >= kLeast &&
         s.out <= kMost;
}

Value emit_winograd(FlowCtx& ctx, Value x, const ConvNormSpec& s, const FoldedConv& f, Value bias,
                    std::optional<Value> residual) {
  const Value u = ctx.synth_param(s.weight + ".winograd", winograd_weights(f.weight, s.out),
                                  Shape({16 * s.out, s.in}, DType::f32));
  const WinogradConv conv{.pads_begin = {1, 1},
                          .pads_end = {1, 1},
                          .act = s.act,
                          .bias = true,
                          .residual = residual.has_value()};
  return residual ? ctx.hir()(conv, x, u, bias, *residual) : ctx.hir()(conv, x, u, bias);
}

}  // namespace

Value emit_conv_norm(FlowCtx& ctx, Value x, const ConvNormSpec& s, std::optional<Value> residual) {
  FoldedConv f = fold(ctx, s);
  const std::int32_t pad = s.kernel / 2, beside = s.in < kFewChannels ? 0 : pad;
  const Value bias = ctx.synth_param(s.norm + ".folded", std::move(f.bias), Shape({s.out}, DType::f32));
  if (suits_winograd(s)) return emit_winograd(ctx, x, s, f, bias, residual);
  const Value weight = ctx.synth_param(s.weight + ".folded", std::move(f.weight),
                                       Shape({s.out, s.kernel * s.kernel * s.in}, DType::f32));
  if (beside < pad) x = ctx.hir()(Pad{.axis = 2, .before = pad, .after = pad}, x);
  const PlaneConv conv{.kernel = {s.kernel, s.kernel},
                       .strides = {s.stride, s.stride},
                       .pads_begin = {pad, beside},
                       .pads_end = {pad, beside},
                       .act = s.act,
                       .bias = true,
                       .residual = residual.has_value()};
  return residual ? ctx.hir()(conv, x, weight, bias, *residual) : ctx.hir()(conv, x, weight, bias);
}

FlowStage conv_norm(ConvNormSpec spec) {
  return [s = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    state.hidden.set(emit_conv_norm(ctx, state.hidden.need(ctx), s));
  };
}

FlowStage conv_norm_residual(ConvNormSpec spec) {
  return [s = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    const Value residual = state.pop_residual(ctx);
    state.hidden.set(emit_conv_norm(ctx, state.hidden.need(ctx), s, residual));
  };
}

FlowStage residual_conv_norm(ConvNormSpec spec) {
  return [s = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    state.residuals.push_back(emit_conv_norm(ctx, state.pop_residual(ctx), s));
  };
}

}  // namespace rlx
