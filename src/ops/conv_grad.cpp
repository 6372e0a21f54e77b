// Gradients of ops/conv.h: a convolution and its transposed form are adjoint in x, and the gradient of the weights is a
// convolution of x by the gradient of y with strides and dilations exchanged.
#include "ops/conv.h"
#include "ops/grad_context.h"
#include "ops/shape_ops.h"

namespace rlx {
namespace {

std::int64_t known(GradContext& c, const Shape& shape, int axis) {
  const auto n = shape.dim(axis).constant();
  if (!n) c.unsupported("its channels and spatial sizes must be known");
  return *n;
}

// [a, b, spatial...] as [b, a, spatial...].
Value swap_first(GradContext& c, Value v) {
  std::vector<int> axes;
  for (int i = 0; i < c.b.shape(v).rank(); ++i) axes.push_back(i < 2 ? 1 - i : i);
  return c.b(Transpose{.axes = Axes(std::span<const int>(axes))}, v);
}

Value first_places(GradContext& c, Value v, int axis, std::int64_t n) {
  if (c.b.shape(v).dim(axis).constant() == n) return v;
  return c.b(Slice{.axis = axis, .start = 0, .stop = n}, v);
}

Value channels(GradContext& c, Value v, std::int64_t begin, std::int64_t end) {
  return c.b(Slice{.axis = 1, .start = begin, .stop = end}, v);
}

// Over the batch and all spatial axes.
Value sum_of_channels(GradContext& c, Value g) {
  for (int axis = c.b.shape(g).rank() - 1; axis >= 2; --axis) g = c.sum(g, axis, false);
  return c.sum(g, 0, false);
}

// dw of y = conv(x, w): w [O, C / groups, kernel...].
Value weight_gradient(GradContext& c, Value x, Value g, const Conv& op, const Shape& w) {
  Conv by = op;
  by.strides = op.dilations;
  by.dilations = op.strides;
  by.groups = 1;
  by.bias = false;
  const std::int64_t in = known(c, w, 1), out = known(c, w, 0) / op.groups;
  std::vector<Value> parts;
  for (std::int64_t i = 0; i < op.groups; ++i) {
    const Value xs = swap_first(c, op.groups == 1 ? x : channels(c, x, i * in, (i + 1) * in));
    const Value gs = swap_first(c, op.groups == 1 ? g : channels(c, g, i * out, (i + 1) * out));
    Value part = c.b(by, xs, gs);  // [C / groups, O / groups, kernel... or more]
    for (int axis = 2; axis < w.rank(); ++axis) part = first_places(c, part, axis, known(c, w, axis));
    parts.push_back(swap_first(c, part));
  }
  return parts.size() == 1 ? parts[0] : c.b.emit(Concat{.axis = 0}, std::move(parts));
}

}  // namespace

void Conv::grad(GradContext& c) const {
  const Shape x = c.shape(0), w = c.shape(1);
  const Value g = c.grad();
  if (c.wants(0)) {
    std::vector<std::int64_t> more;  // places of x behind the last window
    for (int i = 0; i + 2 < x.rank(); ++i) {
      const std::int64_t extent = dilations.get(i, 1) * (known(c, w, i + 2) - 1) + 1;
      more.push_back((known(c, x, i + 2) + pads_begin.get(i, 0) + pads_end.get(i, 0) - extent) % strides.get(i, 1));
    }
    ConvTransposed back;
    back.strides = strides;
    back.dilations = dilations;
    back.pads_begin = pads_begin;
    back.pads_end = pads_end;
    back.output_padding = Extents(std::span<const std::int64_t>(more));
    back.groups = groups;
    c.add(0, c.b(back, g, c.in(1)));
  }
  if (c.wants(1)) c.add(1, weight_gradient(c, c.in(0), g, *this, w));
  if (bias && c.wants(2)) c.add(2, sum_of_channels(c, g));
}

void ConvTransposed::grad(GradContext& c) const {
  const Shape x = c.shape(0), w = c.shape(1);
  const Value g = c.grad();
  Conv forward;
  forward.strides = strides;
  forward.dilations = dilations;
  forward.pads_begin = pads_begin;
  forward.pads_end = pads_end;
  forward.groups = groups;
  if (c.wants(0)) {
    Value dx = c.b(forward, g, c.in(1));
    for (int axis = 2; axis < x.rank(); ++axis) dx = first_places(c, dx, axis, known(c, x, axis));
    c.add(0, dx);
  }
  if (c.wants(1)) c.add(1, weight_gradient(c, g, c.in(0), forward, w));
  if (bias && c.wants(2)) c.add(2, sum_of_channels(c, g));
}

}  // namespace rlx
