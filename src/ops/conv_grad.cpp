// Gradients of ops/conv.h: a convolution and its transposed form are adjoint in x, and the gradient of the weights is a
// convolution of x by the gradient of y with strides and dilations exchanged.
#include "ops/conv.h"
#include "ops/grad_context.h"
#include "ops/shape_ops.h"

namespace rlx {
namespace {

std::int64_t known(GradContext& c, const Shape& shape, int axis) {
  const auto n = shape.dim(axis).constant();
  if (!n) c.unsupported("its spatial sizes must be known");
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

// [N, groups * C, spatial...] as [C, groups * N, spatial...]: the batch becomes the channels of each group.
Value batch_as_channels(GradContext& c, Value v, int groups) {
  if (groups == 1) return swap_first(c, v);
  const Shape s = c.b.shape(v);
  const Dim batch = s.dim(0), channels = ceil_div(s.dim(1), groups);
  std::vector<Dim> split = {batch, groups, channels}, joined = {channels, groups * batch};
  std::vector<int> order = {2, 1, 0};
  for (int i = 2; i < s.rank(); ++i) {
    split.push_back(s.dim(i));
    joined.push_back(s.dim(i));
    order.push_back(i + 1);
  }
  const Value turned = c.b(Transpose{.axes = Axes(std::span<const int>(order))}, c.reshape(v, split));
  return c.reshape(turned, joined);
}

// Over the batch and all spatial axes.
Value sum_of_channels(GradContext& c, Value g) {
  for (int axis = c.b.shape(g).rank() - 1; axis >= 2; --axis) g = c.sum(g, axis, false);
  return c.sum(g, 0, false);
}

// dw of y = conv(x, w), w [O, C / groups, kernel...]: for each group the sum over the batch N, as one convolution of
// x as [C / groups, groups * N, spatial...] by g as [O, N, spatial...] with as many groups.
Value weight_gradient(GradContext& c, Value x, Value g, const Conv& op, const Shape& w) {
  Conv by = op;
  by.strides = op.dilations;
  by.dilations = op.strides;
  by.bias = false;
  Value dw = c.b(by, batch_as_channels(c, x, op.groups), swap_first(c, g));  // [C / groups, O, kernel... or more]
  for (int axis = 2; axis < w.rank(); ++axis) dw = first_places(c, dw, axis, known(c, w, axis));
  return swap_first(c, dw);
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
