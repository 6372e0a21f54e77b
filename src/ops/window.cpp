#include "ops/window.h"

#include <algorithm>

#include "ops/checks.h"

namespace rlx {

WindowPlan window_plan(const TensorView& x, const TensorView& y, const std::int64_t* kernel, const WindowAttrs& attrs) {
  WindowPlan p{};
  const int spatial = x.rank - 2;
  for (int a = 0; a < 3; ++a) {
    const int i = a - (3 - spatial);  // the axis of the tensors, negative: one that they lack
    const bool real = i >= 0;
    p.in[a] = real ? x.dims[2 + i] : 1;
    p.out[a] = real ? y.dims[2 + i] : 1;
    p.kernel[a] = real ? kernel[i] : 1;
    p.stride[a] = real ? attrs.strides.get(i, 1) : 1;
    p.dilation[a] = real ? attrs.dilations.get(i, 1) : 1;
    p.begin[a] = real ? attrs.pads_begin.get(i, 0) : 0;
    p.end[a] = real ? attrs.pads_end.get(i, 0) : 0;
  }
  return p;
}

void check_extents(InferContext& c, std::string_view name, const Extents& e, int spatial, int least) {
  if (e.size() != 0 && e.size() != spatial)
    c.fail("{} {}: expected {} numbers, one for each spatial axis, found {}", name, e.text(), spatial, e.size());
  for (int i = 0; i < e.size(); ++i)
    if (e[i] < least) c.fail("{} {}: expected numbers of at least {}", name, e.text(), least);
}

void check_window(InferContext& c, int x, const WindowAttrs& attrs) {
  const int spatial = c.in(x).rank() - 2;
  if (spatial < 1 || spatial > 3)
    c.fail("{}: expected [batch, channels] and one to three spatial axes, found {}", c.operand(x), c.in(x).text());
  check_extents(c, "strides", attrs.strides, spatial, 1);
  check_extents(c, "dilations", attrs.dilations, spatial, 1);
  check_extents(c, "pads_begin", attrs.pads_begin, spatial, 0);
  check_extents(c, "pads_end", attrs.pads_end, spatial, 0);
}

Dim window_extent(Dim kernel, int dilation) { return Dim(dilation) * (kernel - 1) + 1; }

Dim window_count(InferContext& c, int i, Dim kernel, const WindowAttrs& attrs, bool ceil) {
  return window_count(c, SpatialAxis{i, c.in(0).dim(2 + i)}, kernel, attrs, ceil);
}

Dim window_count(InferContext& c, SpatialAxis axis, Dim kernel, const WindowAttrs& attrs, bool ceil) {
  const int i = axis.index;
  const Dim& size = axis.size;
  const Dim extent = window_extent(kernel, attrs.dilations.get(i, 1));
  const int before = attrs.pads_begin.get(i, 0), after = attrs.pads_end.get(i, 0), stride = attrs.strides.get(i, 1);
  const Dim padded = size + before + after;
  checks::at_most(c, extent, padded, [&] {
    return fmt::format("spatial axis {}: the window spans {} but x with its padding has {}", i, extent.text(),
                       padded.text());
  });
  if (!ceil) return ceil_div(padded - extent + 1, stride);  // floor(n / s) + 1 = ceil((n + 1) / s)
  // The lesser of ceil((padded - extent) / s) + 1 and ceil((size + before) / s): windows that begin before x ends.
  const Dim excess = extent - (after + stride);
  const auto known = excess.constant();
  if (!known) c.fail("ceil_mode: expected a kernel of a known size, found {}", kernel.text());
  return ceil_div(size + before - std::max<std::int64_t>(*known, 0), stride);
}

}  // namespace rlx
