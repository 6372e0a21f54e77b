// Convolutions of image models: the hidden state is f32[batch, height, width, channels].
#pragma once

#include <optional>

#include "flow/flow.h"
#include "ops/activation.h"

namespace rlx {

/// A convolution without bias over [in, kernel, kernel], padded so that a stride of 1 keeps the size, then the batch
/// norm of inference (https://arxiv.org/abs/1502.03167, algorithm 2) and an activation.
struct ConvNormSpec {
  std::string weight;  ///< key of [out, in, kernel, kernel]
  std::string norm;    ///< keys NORM.weight, .bias, .running_mean and .running_var, each [out]
  std::int64_t in = 0, out = 0;
  std::int32_t kernel = 1, stride = 1;  ///< the kernel is odd
  float eps = 1e-5f;
  Act act = Act::none;
};

/// act(the norm of the convolution of x, + residual where there is one): one PlaneConv or WinogradConv, since the batch
/// norm is folded into kernel and bias, in f32, when the model is built.
Value emit_conv_norm(FlowCtx& ctx, Value x, const ConvNormSpec& spec, std::optional<Value> residual = {});

/// hidden = the convolution of hidden.
FlowStage conv_norm(ConvNormSpec spec);
/// The same with the last saved residual, which leaves the stack.
FlowStage conv_norm_residual(ConvNormSpec spec);
/// The last saved residual becomes its convolution: the shortcut of a block that changes the size.
FlowStage residual_conv_norm(ConvNormSpec spec);

}  // namespace rlx
