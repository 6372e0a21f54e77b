#include "flow/blocks/convolution.h"

#include <cmath>

#include "ops/conv.h"
#include "ops/elementwise.h"

namespace rlx {
namespace {

struct FoldedConv {
  std::vector<float> weight, bias;  // empty: a tensor is missing, which finish() reports
};

FoldedConv fold(FlowCtx& ctx, const ConvNormSpec& s) {
  FoldedConv f;
  f.weight = ctx.read_values(s.weight, {s.out, s.in, s.kernel, s.kernel});
  const std::vector<float> scale = ctx.read_vector(s.norm + ".weight", s.out),
                           shift = ctx.read_vector(s.norm + ".bias", s.out),
                           mean = ctx.read_vector(s.norm + ".running_mean", s.out),
                           variance = ctx.read_vector(s.norm + ".running_var", s.out);
  if (f.weight.empty() || scale.empty() || shift.empty() || mean.empty() || variance.empty()) return {};
  const std::size_t taps = f.weight.size() / scale.size();
  for (std::size_t o = 0; o < scale.size(); ++o) {
    const double gain = double{scale[o]} / std::sqrt(double{variance[o]} + double{s.eps});
    for (std::size_t i = o * taps; i < (o + 1) * taps; ++i) f.weight[i] = static_cast<float>(f.weight[i] * gain);
    f.bias.push_back(static_cast<float>(double{shift[o]} - double{mean[o]} * gain));
  }
  return f;
}

}  // namespace

Value emit_conv_norm(FlowCtx& ctx, Value x, const ConvNormSpec& s) {
  FoldedConv f = fold(ctx, s);
  const Value weight = ctx.synth_param(s.weight + ".folded", std::move(f.weight),
                                       Shape({s.out, s.in, s.kernel, s.kernel}, DType::f32));
  const Value bias = ctx.synth_param(s.norm + ".folded", std::move(f.bias), Shape({s.out}, DType::f32));
  const std::int32_t pad = s.kernel / 2;
  const Conv conv{.strides = {s.stride, s.stride}, .pads_begin = {pad, pad}, .pads_end = {pad, pad}, .bias = true};
  const Value y = ctx.hir()(conv, x, weight, bias);
  return s.act == Act::none ? y : ctx.hir()(Activation{.act = s.act}, y);
}

FlowStage conv_norm(ConvNormSpec spec) {
  return [s = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    state.hidden.set(emit_conv_norm(ctx, state.hidden.need(ctx), s));
  };
}

FlowStage residual_conv_norm(ConvNormSpec spec) {
  return [s = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    state.residuals.push_back(emit_conv_norm(ctx, state.pop_residual(ctx), s));
  };
}

}  // namespace rlx
