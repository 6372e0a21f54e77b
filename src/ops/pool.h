// Pooling over one, two or three spatial axes (https://onnx.ai/onnx/operators/onnx__MaxPool.html,
// onnx__AveragePool.html; PyTorch's max_pool and avg_pool of the same ranks).
#pragma once

#include "ir/op.h"
#include "ops/window.h"

namespace rlx {

enum class PoolKind : std::uint8_t { max, average };
inline constexpr std::array<std::string_view, 2> kPoolKindNames = {"max", "average"};
constexpr std::span<const std::string_view> enum_names(PoolKind) { return kPoolKindNames; }

/// The largest value, or the average, of each window of x. `kernel` has a number for each spatial axis. Empty lists:
/// strides and dilations 1, paddings 0.
/// x: f32[batch, C, spatial...]; y: f32[batch, C, floor((size + pads - dilation * (kernel - 1) - 1) / stride) + 1 ...].
/// ceil_mode: ceil instead of floor, without windows that would begin in the padding after x.
/// max: padding never counts; a NaN of the window stays; of no value -inf. average: divides by the number of values of
/// x in the window, with count_pads by that of values and padding (never by what ceil_mode reads beyond both); of no
/// value 0. Its gradient asks for known spatial sizes, that of max for a kernel of at most 1024 places too.
struct Pool {
  PoolKind kind = PoolKind::max;
  bool count_pads = false, ceil_mode = false;
  Extents kernel{}, strides{}, dilations{}, pads_begin{}, pads_end{};
  static constexpr std::string_view name = "pool";
  static constexpr Trait traits = Trait::reduction;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr auto fields(auto...) {
    return std::tuple{field("kind", &Pool::kind),
                      field("count_pads", &Pool::count_pads),
                      field("ceil_mode", &Pool::ceil_mode),
                      field("kernel", &Pool::kernel),
                      field("strides", &Pool::strides),
                      field("dilations", &Pool::dilations),
                      field("pads_begin", &Pool::pads_begin),
                      field("pads_end", &Pool::pads_end)};
  }
  bool operator==(const Pool&) const = default;
  [[gnu::always_inline]] WindowAttrs window() const { return {strides, dilations, pads_begin, pads_end}; }
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// The largest value, or the average, of each channel. x: f32[batch, C, spatial...]; y: f32[batch, C, 1...]. Its body
/// is a reduction of each spatial axis.
struct GlobalPool {
  PoolKind kind = PoolKind::max;
  static constexpr std::string_view name = "global_pool";
  static constexpr Trait traits = Trait::composite;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr auto fields(auto...) { return std::tuple{field("kind", &GlobalPool::kind)}; }
  bool operator==(const GlobalPool&) const = default;
  void infer(InferContext&) const;
  void decompose(Body&) const;
  static std::vector<Sample> samples();
};

using PoolOps = OpList<Pool, GlobalPool>;

}  // namespace rlx
