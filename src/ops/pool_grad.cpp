// Gradients of ops/pool.h. A window's gradient goes back to its taps: all of them in equal parts, which a transposed
// convolution does, or the first that holds the largest value.
#include <algorithm>
#include <limits>

#include "ops/constant.h"
#include "ops/conv.h"
#include "ops/grad_context.h"
#include "ops/pool.h"
#include "ops/shape_ops.h"

namespace rlx {
namespace {

constexpr std::int64_t kMostTaps = 1024;  // of a maximum: the gradient has a few nodes for each

// Along one spatial axis: x with the padding that the windows read, and no place more.
struct PooledAxis {
  std::int64_t size, windows, kernel, stride, dilation, begin, end;
  std::int64_t padded() const { return begin + size + end; }
  std::int64_t used() const { return (windows - 1) * stride + dilation * (kernel - 1) + 1; }
};

PooledAxis axis_of(GradContext& c, const Pool& op, int i) {
  const auto size = c.shape(0).dim(i + 2).constant(), windows = c.out_shape().dim(i + 2).constant();
  if (!size || !windows) c.unsupported("its spatial sizes must be known");
  PooledAxis a{*size, *windows, op.kernel[i], op.strides.get(i, 1), op.dilations.get(i, 1), op.pads_begin.get(i, 0),
               op.pads_end.get(i, 0)};
  a.end += std::max<std::int64_t>(a.used() - a.padded(), 0);  // ceil_mode reads beyond the padding
  return a;
}

std::vector<PooledAxis> pooled_axes(GradContext& c, const Pool& op) {
  std::vector<PooledAxis> axes;
  for (int i = 0; i + 2 < c.shape(0).rank(); ++i) axes.push_back(axis_of(c, op, i));
  return axes;
}

Value padded(GradContext& c, Value x, const std::vector<PooledAxis>& axes, float value) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::int32_t>(i) + 2;
    x = c.b(Pad{.axis = axis, .before = axes[i].begin, .after = axes[i].end, .value = value}, x);
  }
  return x;
}

// The values that the windows read at a tap; places[i] is the tap along axis i.
Value tap_values(GradContext& c, Value x, const std::vector<PooledAxis>& axes,
                 const std::vector<std::int64_t>& places) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t start = places[i] * axes[i].dilation;
    x = c.b(Slice{.axis = static_cast<std::int32_t>(i) + 2, .start = start,
                  .stop = start + (axes[i].windows - 1) * axes[i].stride + 1,
                  .step = static_cast<std::int32_t>(axes[i].stride)},
            x);
  }
  return x;
}

// The adjoint of tap_values: zeros elsewhere. A slice's own gradient does it.
Value to_tap(GradContext& c, Value g, Value like, const std::vector<PooledAxis>& axes,
             const std::vector<std::int64_t>& places) {
  for (std::size_t i = axes.size(); i-- > 0;) {
    const int axis = static_cast<int>(i) + 2;
    const PooledAxis& a = axes[i];
    if (a.stride > 1) {  // zeros between: [.., n, ..] as [.., n, stride, ..], cut behind the last
      const Shape& s = c.b.shape(g);
      std::vector<Dim> spread(s.dims().begin(), s.dims().end());
      spread.insert(spread.begin() + axis + 1, Dim(1));
      std::vector<Dim> joined(s.dims().begin(), s.dims().end());
      joined[static_cast<std::size_t>(axis)] = Dim(a.windows * a.stride);
      Value wide = c.b(Pad{.axis = axis + 1, .after = a.stride - 1}, c.reshape(g, spread));
      g = c.b(Slice{.axis = axis, .start = 0, .stop = (a.windows - 1) * a.stride + 1}, c.reshape(wide, joined));
    }
    const std::int64_t before = places[i] * a.dilation, n = (a.windows - 1) * a.stride + 1;
    g = c.b(Pad{.axis = axis, .before = before, .after = c.b.shape(like).dim(axis) - Dim(before + n)}, g);
  }
  return g;
}

// The next tap in row-major order; false behind the last.
bool next_tap(std::vector<std::int64_t>& places, const std::vector<PooledAxis>& axes) {
  for (std::size_t i = axes.size(); i-- > 0;) {
    if (++places[i] < axes[i].kernel) return true;
    places[i] = 0;
  }
  return false;
}

Value without_padding(GradContext& c, Value x, const std::vector<PooledAxis>& axes) {
  for (std::size_t i = 0; i < axes.size(); ++i)
    x = c.b(Slice{.axis = static_cast<std::int32_t>(i) + 2, .start = axes[i].begin,
                  .stop = axes[i].begin + axes[i].size},
            x);
  return x;
}

// For each window along an axis, how many of its taps count.
std::vector<std::int64_t> counts_along(const PooledAxis& a, std::int64_t begin, std::int64_t end) {
  // Of a window's taps, those before a place of x.
  const auto taps_before = [&](std::int64_t window, std::int64_t place) {
    const std::int64_t places = std::max<std::int64_t>(place + a.begin - window * a.stride, 0);
    return std::min((places + a.dilation - 1) / a.dilation, a.kernel);
  };
  std::vector<std::int64_t> counts;
  for (std::int64_t w = 0; w < a.windows; ++w) counts.push_back(taps_before(w, a.size + end) - taps_before(w, -begin));
  return counts;
}

// What each window's sum was divided by, [1, 1, windows...]: x counts, with count_pads the padding that was asked for
// too. 1 for a window of nothing, whose gradient goes nowhere.
Tensor divisors(const Pool& op, const std::vector<PooledAxis>& axes) {
  std::vector<std::int64_t> dims = {1, 1};
  std::vector<float> values = {1.0f};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = static_cast<int>(i);
    const std::int64_t begin = op.count_pads ? op.pads_begin.get(axis, 0) : 0,
                       end = op.count_pads ? op.pads_end.get(axis, 0) : 0;
    const std::vector<std::int64_t> counts = counts_along(axes[i], begin, end);
    std::vector<float> wider;  // the count of a window is the product of those along the axes
    for (const float v : values)
      for (const std::int64_t n : counts) wider.push_back(v * static_cast<float>(n));
    values = std::move(wider);
    dims.push_back(axes[i].windows);
  }
  std::replace(values.begin(), values.end(), 0.0f, 1.0f);
  return Tensor::from(std::move(dims), std::span<const float>(values));
}

// The adjoint of the sum of each window: every channel by itself through a transposed convolution by ones.
Value average_gradient(GradContext& c, const Pool& op, const std::vector<PooledAxis>& axes) {
  const Shape x = c.shape(0), y = c.out_shape();
  const Dim planes = x.dim(0) * x.dim(1);
  std::vector<Dim> lines = {planes, 1}, kernel = {1, 1};
  std::vector<std::int64_t> cut, more;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const PooledAxis& a = axes[i];
    lines.push_back(y.dim(static_cast<int>(i) + 2));
    kernel.push_back(a.kernel);
    // The windows end behind x (in padding, or beyond it by ceil_mode) or leave less than a stride of x.
    const std::int64_t unread = a.begin + a.size - a.used();
    cut.push_back(std::max<std::int64_t>(-unread, 0));
    more.push_back(std::max<std::int64_t>(unread, 0));
  }
  ConvTransposed back;
  back.strides = op.strides;
  back.dilations = op.dilations;
  back.pads_begin = op.pads_begin;
  back.pads_end = Extents(std::span<const std::int64_t>(cut));
  back.output_padding = Extents(std::span<const std::int64_t>(more));
  const Value share = c.over(c.grad(), c.b.constant(divisors(op, axes)));
  const Value ones = c.b(Full{.dims = DimList(kernel), .value = 1.0f});
  return c.reshape(c.b(back, c.reshape(share, lines), ones), x.dims());
}

// To the first tap of each window that holds its largest value.
Value maximum_gradient(GradContext& c, const std::vector<PooledAxis>& axes) {
  std::int64_t taps = 1;
  for (const PooledAxis& a : axes) {
    taps *= a.kernel;
    if (taps > kMostTaps)
      c.unsupported(fmt::format("expected windows of at most {} values for the gradient of a maximum", kMostTaps));
  }
  const Value x = padded(c, c.in(0), axes, -std::numeric_limits<float>::infinity());
  std::vector<std::int64_t> places(axes.size(), 0);
  Value taken, dx;
  do {
    const Value hit = c.mask(Relation::eq, tap_values(c, x, axes, places), c.out());
    const Value first = taken ? c.times(hit, c.minus(c.constant(1, hit), taken)) : hit;
    taken = taken ? c.plus(taken, first) : first;
    const Value part = to_tap(c, c.times(c.grad(), first), x, axes, places);
    dx = dx ? c.plus(dx, part) : part;
  } while (next_tap(places, axes));
  return without_padding(c, dx, axes);
}

}  // namespace

void Pool::grad(GradContext& c) const {
  const std::vector<PooledAxis> axes = pooled_axes(c, *this);
  if (std::any_of(axes.begin(), axes.end(), [](const PooledAxis& a) { return a.size == 0; })) return;
  c.add(0, kind == PoolKind::average ? average_gradient(c, *this, axes) : maximum_gradient(c, axes));
}

}  // namespace rlx
