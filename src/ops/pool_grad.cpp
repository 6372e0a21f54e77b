// Gradients of ops/pool.h. A window's gradient goes back to its taps: all of them in equal parts, or the first that
// holds the largest value.
#include <algorithm>
#include <limits>

#include "ops/grad_context.h"
#include "ops/pool.h"
#include "ops/shape_ops.h"

namespace rlx {
namespace {

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

}  // namespace

void Pool::grad(GradContext& c) const {
  const std::vector<PooledAxis> axes = pooled_axes(c, *this);
  const float outside = kind == PoolKind::max ? -std::numeric_limits<float>::infinity() : 0.0f;
  const Value x = padded(c, c.in(0), axes, outside);
  // What counts: x, and with count_pads the padding that was asked for.
  Value counted = c.fill(c.shape(0).with(DType::f32), 1);
  std::vector<PooledAxis> asked = axes;
  for (std::size_t i = 0; i < axes.size(); ++i) asked[i].end = pads_end.get(static_cast<int>(i), 0);
  if (count_pads) counted = padded(c, counted, asked, 1.0f);
  std::vector<PooledAxis> rest = axes;
  for (std::size_t i = 0; i < axes.size() && count_pads; ++i) {
    rest[i].begin = 0;
    rest[i].end = axes[i].end - asked[i].end;
  }
  counted = padded(c, counted, rest, 0.0f);

  std::vector<std::int64_t> places(axes.size(), 0);
  Value count, taken, dx;
  if (kind == PoolKind::average) {
    do {
      const Value here = tap_values(c, counted, axes, places);
      count = count ? c.plus(count, here) : here;
    } while (next_tap(places, axes));
  }
  const Value g = kind == PoolKind::average
                      ? c.over(c.grad(), c.where(c.compare(Relation::gt, count, c.constant(0, count)), count,
                                                 c.constant(1, count)))
                      : c.grad();
  do {
    Value share = g;
    if (kind == PoolKind::max) {
      const Value hit = c.mask(Relation::eq, tap_values(c, x, axes, places), c.out());
      const Value first = taken ? c.times(hit, c.minus(c.constant(1, hit), taken)) : hit;
      taken = taken ? c.plus(taken, first) : first;
      share = c.times(g, first);
    }
    const Value part = to_tap(c, share, x, axes, places);
    dx = dx ? c.plus(dx, part) : part;
  } while (next_tap(places, axes));
  c.add(0, without_padding(c, dx, axes));
}

}  // namespace rlx
