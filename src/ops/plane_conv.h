// Convolutions of planes whose channels come last: with the weights of a place side by side they are products of
// windows and rows, which is how kernels run them.
#pragma once

#include "ir/op.h"
#include "ops/activation.h"
#include "ops/window.h"

namespace rlx {

/// y = act(conv(x, w) + bias + residual). A window of x is the row [kernel[0], kernel[1], C] around a place, with 0
/// beyond x, and its sums are those of Linear with w.
/// x: [batch, height, width, C] f32 or bf16; w: [O, kernel[0] * kernel[1] * C] of any storage type, plain or p16;
/// bias: f32[O]; residual, y: f32[batch, floor((height + pads - kernel[0]) / stride) + 1, ..., O]. The operands bias
/// and residual follow x, w in this order, each present when its flag is set. Extents of the kernel: 1 to 24. Empty
/// lists: strides 1, paddings 0. Its body is Linear of all windows, side by side.
struct PlaneConv {
  Extents kernel{}, strides{}, pads_begin{}, pads_end{};
  Act act = Act::none;
  bool bias = false, residual = false;

  static constexpr std::string_view name = "plane_conv";
  static constexpr Trait traits = Trait::compute;
  static constexpr std::array<std::string_view, 4> operands = {"x", "w", "bias", "residual"};
  static constexpr int optional_operands = 2;
  static constexpr auto fields(auto...) {
    using P = PlaneConv;
    return std::tuple{field("kernel", &P::kernel),         field("strides", &P::strides),
                      field("pads_begin", &P::pads_begin), field("pads_end", &P::pads_end),
                      field("act", &P::act),               field("bias", &P::bias),
                      field("residual", &P::residual)};
  }
  bool operator==(const PlaneConv&) const = default;
  int bias_at() const { return bias ? 2 : -1; }
  int residual_at() const { return residual ? 2 + bias : -1; }
  int in_place() const { return residual_at(); }
  void infer(InferContext&) const;
  void decompose(Body&) const;
  static std::vector<Sample> samples();
};

using PlaneConvOps = OpList<PlaneConv>;

}  // namespace rlx
