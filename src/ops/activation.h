// The activation functions, as an attribute of products and as element-wise ops.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace rlx {

/// silu: x / (1 + exp(-x)). gelu_tanh: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). gelu: 0.5 x
/// (1 + erf(x / sqrt(2))) (https://arxiv.org/abs/1606.08415). relu: max(x, 0).
enum class Act : std::uint8_t { none, silu, gelu_tanh, gelu, relu };

inline constexpr std::array<std::string_view, 5> kActNames = {"none", "silu", "gelu_tanh", "gelu",
                                                              "relu"};
constexpr std::span<const std::string_view> enum_names(Act) { return kActNames; }

double apply(Act act, double x);  ///< the reference, in double

}  // namespace rlx
