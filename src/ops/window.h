// Windows that slide over up to three spatial axes: what convolutions and pooling share. Tensors are [batch, channels,
// spatial axes...] (ONNX and PyTorch: NCL, NCHW, NCDHW).
#pragma once

#include <array>

#include "ir/infer.h"
#include "ir/kernel_args.h"
#include "ops/attr_lists.h"

namespace rlx {

/// How a window moves. Empty lists: strides and dilations 1, paddings 0. Padding is what lies before and after x.
struct WindowAttrs {
  Extents strides{}, dilations{}, pads_begin{}, pads_end{};
};

/// Sizes of an op on tensors, always with three spatial axes; those that the tensors lack come first and have size,
/// kernel and stride 1. Plain numbers: the instruction-set units read it.
struct WindowPlan {
  std::int64_t in[3], out[3], kernel[3];
  std::int64_t stride[3], dilation[3], begin[3], end[3];
  std::int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  std::int64_t inputs() const { return in[0] * in[1] * in[2]; }
  std::int64_t outputs() const { return out[0] * out[1] * out[2]; }
};
/// Of views x and y [batch, channels, spatial...]; `kernel` holds a size for each of their spatial axes.
WindowPlan window_plan(const TensorView& x, const TensorView& y, const std::int64_t* kernel, const WindowAttrs& attrs);

/// x is [batch, channels, spatial...] with one to three spatial axes and `attrs` has that many numbers, strides and
/// dilations of 1 or more.
void check_window(InferContext& c, int x, const WindowAttrs& attrs);
/// One of the lists has a number for each spatial axis, each at least `least`.
void check_extents(InferContext& c, std::string_view name, const Extents& e, int spatial, int least);
/// The extent of a kernel with its gaps: dilation * (kernel - 1) + 1.
Dim window_extent(Dim kernel, int dilation);
/// How often the window fits on spatial axis i: floor((size + padding - extent) / stride) + 1. With `ceil` also where
/// it begins inside but ends beyond the padding: ceil instead of floor, without windows that begin in the padding
/// after x. Error(shape) where the window is larger than x with its padding.
Dim window_count(InferContext& c, int i, Dim kernel, const WindowAttrs& attrs, bool ceil = false);
/// The same on a spatial axis that lies elsewhere among those of x.
struct SpatialAxis {
  int index;
  Dim size;
};
Dim window_count(InferContext& c, SpatialAxis axis, Dim kernel, const WindowAttrs& attrs, bool ceil = false);

/// Calls f(i, j, k, flat index) for each place of a volume, in row-major order.
template <typename F>
void each_place(const std::int64_t (&dims)[3], F f) {
  std::int64_t flat = 0;
  for (std::int64_t i = 0; i < dims[0]; ++i)
    for (std::int64_t j = 0; j < dims[1]; ++j)
      for (std::int64_t k = 0; k < dims[2]; ++k) f(std::array{i, j, k}, flat++);
}

}  // namespace rlx
