// Convolutions over one, two or three spatial axes, in the layouts of ONNX and PyTorch checkpoints
// (https://onnx.ai/onnx/operators/onnx__Conv.html, onnx__ConvTranspose.html). As there the kernel is not mirrored.
#pragma once

#include "ir/op.h"
#include "ops/window.h"

namespace rlx {

/// y[n, o, p] = bias[o] + sum over c and k of w[o, c, k] * x[n, g * C / groups + c, p * stride + k * dilation - pad],
/// g the group of o; what lies outside of x counts as 0.
/// x: f32[batch, C, spatial...]; w: f32, f16 or bf16 [O, C / groups, kernel...]; bias: f32[O] when `bias` is set;
/// y: f32[batch, O, floor((size + pads - dilation * (kernel - 1) - 1) / stride) + 1 ...].
/// Empty lists: strides and dilations 1, paddings 0.
struct Conv {
  Extents strides{}, dilations{}, pads_begin{}, pads_end{};
  std::int32_t groups = 1;
  bool bias = false;
  static constexpr std::string_view name = "conv";
  static constexpr Trait traits = Trait::compute;
  static constexpr std::array<std::string_view, 3> operands = {"x", "w", "bias"};
  static constexpr int optional_operands = 1;
  static constexpr auto fields(auto...) {
    return std::tuple{field("strides", &Conv::strides),       field("dilations", &Conv::dilations),
                      field("pads_begin", &Conv::pads_begin), field("pads_end", &Conv::pads_end),
                      field("groups", &Conv::groups),         field("bias", &Conv::bias)};
  }
  bool operator==(const Conv&) const = default;
  [[gnu::always_inline]] WindowAttrs window() const { return {strides, dilations, pads_begin, pads_end}; }
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// The adjoint of Conv (of its x, with the same attributes) and a bias: x[n, c, p] * w[c, o, k] is added to
/// y[n, g * O / groups + o, p * stride + k * dilation - pads_begin], g the group of c.
/// x: f32[batch, C, spatial...]; w: f32, f16 or bf16 [C, O / groups, kernel...]; bias: f32[O] when `bias` is set;
/// y: f32[batch, O, (size - 1) * stride + dilation * (kernel - 1) + 1 + output_padding - pads ...].
/// output_padding, less than the stride or the dilation: more places at the end; up to stride - 1 of them are such that
/// Conv would not have read.
struct ConvTransposed {
  Extents strides{}, dilations{}, pads_begin{}, pads_end{}, output_padding{};
  std::int32_t groups = 1;
  bool bias = false;
  static constexpr std::string_view name = "conv_transposed";
  static constexpr Trait traits = Trait::compute;
  static constexpr std::array<std::string_view, 3> operands = {"x", "w", "bias"};
  static constexpr int optional_operands = 1;
  static constexpr auto fields(auto...) {
    using C = ConvTransposed;
    return std::tuple{field("strides", &C::strides),   field("dilations", &C::dilations),
                      field("pads_begin", &C::pads_begin), field("pads_end", &C::pads_end),
                      field("output_padding", &C::output_padding), field("groups", &C::groups),
                      field("bias", &C::bias)};
  }
  bool operator==(const ConvTransposed&) const = default;
  [[gnu::always_inline]] WindowAttrs window() const { return {strides, dilations, pads_begin, pads_end}; }
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

using ConvOps = OpList<Conv, ConvTransposed>;

}  // namespace rlx
