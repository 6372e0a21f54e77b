// Convolutions of 3 x 3 with less than half of the products: Winograd's F(2 x 2, 3 x 3).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/op.h"
#include "ops/activation.h"
#include "ops/window.h"

namespace rlx {

/// y = act(conv(x, w) + bias + residual) with a kernel of 3 x 3 and steps of 1, as A^T [(G w G^T) * (B^T d B)] A of
/// tiles d of 4 x 4 places, each 2 x 2 of y (https://arxiv.org/abs/1509.09308): 16 products where the windows of
/// PlaneConv take 36. Rounding errors are a few times those of the plain sums; an infinite x gives NaN around it.
/// x: f32[batch, height, width, C]; u: f32[16 * O, C], plain or p16, the weights as winograd_weights makes them; bias:
/// f32[O]; residual, y: f32[batch, height + pads - 2, width + pads - 2, O]; O is a multiple of 16. The operands bias
/// and residual follow x, u in this order, each present when its flag is set. Its body, for any u, is PlaneConv with a
/// kernel of 4 x 4 and steps of 2 for the four places of a tile.
struct WinogradConv {
  Extents pads_begin{}, pads_end{};
  Act act = Act::none;
  bool bias = false, residual = false;

  static constexpr std::string_view name = "winograd_conv";
  static constexpr Trait traits = Trait::compute;
  static constexpr std::array<std::string_view, 4> operands = {"x", "u", "bias", "residual"};
  static constexpr int optional_operands = 2;
  static constexpr auto fields(auto...) {
    using W = WinogradConv;
    return std::tuple{field("pads_begin", &W::pads_begin), field("pads_end", &W::pads_end), field("act", &W::act),
                      field("bias", &W::bias), field("residual", &W::residual)};
  }
  bool operator==(const WinogradConv&) const = default;
  int bias_at() const { return bias ? 2 : -1; }
  int residual_at() const { return residual ? 2 + bias : -1; }
  int in_place() const { return residual_at(); }
  void infer(InferContext&) const;
  void decompose(Body&) const;
  static std::vector<Sample> samples();
};

/// u of weights w [outputs, 3 * 3 * channels], those of PlaneConv: matrix 4 a + b of the 16, [outputs, channels] each,
/// holds place (a, b) of G w G^T. Computed in double.
std::vector<float> winograd_weights(std::span<const float> w, std::int64_t outputs);

using WinogradConvOps = OpList<WinogradConv>;

}  // namespace rlx
