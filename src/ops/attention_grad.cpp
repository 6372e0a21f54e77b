// Gradients of ops/attention.h.
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/grad_context.h"
#include "ops/shape_ops.h"

namespace rlx {
namespace {

// The two lanes of each pair of the rotary part: [rows, heads, pairs] each.
struct Pairs {
  Value first, second;
};
Pairs pairs_of(GradContext& c, Value x, const Rope& op) {
  const Shape shape = c.b.shape(x);
  const Dim heads = ceil_div(shape.dim(1), op.head_dim), pairs = op.rotary_dim / 2;
  const Value by_head = c.reshape(x, std::vector<Dim>{shape.dim(0), heads, op.head_dim});
  const Value turned = c.b(Slice{.axis = 2, .start = 0, .stop = op.rotary_dim}, by_head);
  const bool half = op.style == RopeStyle::half;
  const Value split = c.reshape(turned, half ? std::vector<Dim>{shape.dim(0), heads, 2, pairs}
                                             : std::vector<Dim>{shape.dim(0), heads, pairs, 2});
  const auto lane = [&](int i) {
    const Value one = c.b(Slice{.axis = half ? 2 : 3, .start = i, .stop = i + 1}, split);
    return c.reshape(one, std::vector<Dim>{shape.dim(0), heads, pairs});
  };
  return {lane(0), lane(1)};
}

}  // namespace

// A rotation's transpose turns by the opposite angle; the magnitude stays. d y / d angle is y turned by a quarter:
// (y1, y2) becomes (-y2, y1), and the angle is position * inv_freq.
void Rope::grad(GradContext& c) const {
  const Value back = c.unary(UnaryFunction::neg, c.in(1));
  if (c.wants(0)) c.add(0, c.b(*this, c.grad(), back, c.raw(2)));
  if (!c.wants(1)) return;
  const Pairs y = pairs_of(c, c.out(), *this), g = pairs_of(c, c.grad(), *this);
  const Value angle = c.sum(c.minus(c.times(g.second, y.first), c.times(g.first, y.second)), 1, false);
  const Value positions = c.b(Cast{.to = DType::f32}, c.raw(2));
  c.add(1, c.times(angle, c.reshape(positions, std::vector<Dim>{c.shape(2).dim(0), 1})));
}

}  // namespace rlx
