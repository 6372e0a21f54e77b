// Gradients of ops/shape_ops.h: the values go back where they came from.
#include "ops/access.h"
#include "ops/constant.h"
#include "ops/grad_context.h"
#include "ops/select.h"
#include "ops/shape_ops.h"

namespace rlx {

void Reshape::grad(GradContext& c) const { c.add(0, c.reshape(c.grad(), c.shape(0).dims())); }

void Transpose::grad(GradContext& c) const {
  const int rank = c.shape(0).rank();
  std::vector<int> inverse(static_cast<std::size_t>(rank));
  for (int i = 0; i < rank; ++i)
    inverse[static_cast<std::size_t>(axes.size() == 0 ? rank - 1 - i : access::axis_of(axes[i], rank))] = i;
  c.add(0, c.b(Transpose{.axes = Axes(inverse)}, c.grad()));
}

void Slice::grad(GradContext& c) const {
  const Shape x = c.shape(0);
  const int at = access::axis_of(axis, x.rank());
  if (step == 1) {
    c.add(0, c.b(Pad{.axis = at, .before = start, .after = x.dim(at) - stop}, c.grad()));
    return;
  }
  const Value places = c.b(Iota{.dims = {c.out_shape().dim(at)}, .start = start, .step = step});
  c.add(0, c.b(ScatterAdd{.axis = at}, c.fill(x, 0), places, c.grad()));
}

void Concat::grad(GradContext& c) const {
  const int at = access::axis_of(axis, c.out_shape().rank());
  Dim begin = 0;
  for (int i = 0; i < c.arity(); ++i) {
    const Dim end = begin + c.shape(i).dim(at);
    if (c.wants(i)) c.add(i, c.b(Slice{.axis = at, .start = begin, .stop = end}, c.grad()));
    begin = end;
  }
}

void Pad::grad(GradContext& c) const {
  const int at = access::axis_of(axis, c.out_shape().rank());
  c.add(0, c.b(Slice{.axis = at, .start = before, .stop = before + c.shape(0).dim(at)}, c.grad()));
}

void BroadcastTo::grad(GradContext& c) const { c.add(0, c.grad()); }

}  // namespace rlx
