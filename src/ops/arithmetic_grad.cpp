// Gradients of ops/arithmetic.h.
#include <numbers>

#include "ops/arithmetic.h"
#include "ops/grad_context.h"

namespace rlx {
namespace {

// a where it is the chosen one, b where b is, half to each where they are equal.
void split_by_order(GradContext& c, Relation a_is_chosen) {
  const Value a = c.in(0), b = c.in(1);
  const Value tie = c.scaled(c.mask(Relation::eq, a, b), 0.5);
  const Value of_a = c.plus(c.mask(a_is_chosen, a, b), tie);
  if (c.wants(0)) c.add(0, c.times(c.grad(), of_a));
  if (c.wants(1)) c.add(1, c.times(c.grad(), c.minus(c.constant(1, of_a), of_a)));
}

// d fn(x) / dx; x: the operand, y: the result.
Value slope(GradContext& c, UnaryFunction fn, Value x, Value y) {
  const Value one = c.constant(1, x), zero = c.constant(0, x);
  switch (fn) {
    case UnaryFunction::neg:
      return c.constant(-1, x);
    case UnaryFunction::exp:
      return y;
    case UnaryFunction::log:
      return c.unary(UnaryFunction::reciprocal, x);
    case UnaryFunction::sqrt:
      return c.over(c.constant(0.5, x), y);
    case UnaryFunction::rsqrt:
      return c.scaled(c.times(y, c.square(y)), -0.5);
    case UnaryFunction::reciprocal:
      return c.scaled(c.square(y), -1);
    case UnaryFunction::abs:
      return c.unary(UnaryFunction::sign, x);
    case UnaryFunction::sin:
      return c.unary(UnaryFunction::cos, x);
    case UnaryFunction::cos:
      return c.scaled(c.unary(UnaryFunction::sin, x), -1);
    case UnaryFunction::tanh:
      return c.minus(one, c.square(y));
    case UnaryFunction::sign:  // steps: 0 wherever the derivative exists
    case UnaryFunction::floor:
    case UnaryFunction::ceil:
    case UnaryFunction::round:
      return zero;
    case UnaryFunction::erf:
      return c.scaled(c.unary(UnaryFunction::exp, c.scaled(c.square(x), -1)), 2.0 * std::numbers::inv_sqrtpi);
    case UnaryFunction::sigmoid:
      return c.times(y, c.minus(one, y));
    case UnaryFunction::softplus:
      return c.unary(UnaryFunction::sigmoid, x);
  }
  return zero;
}

}  // namespace

void Sub::grad(GradContext& c) const {
  c.add(0, c.grad());
  if (c.wants(1)) c.add(1, c.scaled(c.grad(), -1));
}

void Div::grad(GradContext& c) const {
  const Value share = c.over(c.grad(), c.in(1));
  c.add(0, share);
  if (c.wants(1)) c.add(1, c.scaled(c.times(share, c.out()), -1));
}

// d a^b / da = b a^(b - 1), 0 where b = 0 (at a = 0 too: a^0 is 1 for all a); d a^b / db = a^b log a, 0 at a = 0 (the
// limit for b > 0).
void Pow::grad(GradContext& c) const {
  const Value a = c.in(0), b = c.in(1);
  const Value nonzero = c.where(c.compare(Relation::eq, a, c.constant(0, a)), c.constant(1, a), a);
  if (c.wants(0)) {
    const Value base = c.where(c.compare(Relation::eq, b, c.constant(0, b)), nonzero, a);
    c.add(0, c.times(c.grad(), c.times(b, c.b(Pow{}, base, c.minus(b, c.constant(1, b))))));
  }
  if (c.wants(1)) c.add(1, c.times(c.grad(), c.times(c.out(), c.unary(UnaryFunction::log, nonzero))));
}

void Maximum::grad(GradContext& c) const { split_by_order(c, Relation::gt); }
void Minimum::grad(GradContext& c) const { split_by_order(c, Relation::lt); }

void Where::grad(GradContext& c) const {
  const Value zero = c.constant(0, c.grad());
  if (c.wants(1)) c.add(1, c.where(c.raw(0), c.grad(), zero));
  if (c.wants(2)) c.add(2, c.where(c.raw(0), zero, c.grad()));
}

void Clamp::grad(GradContext& c) const {
  const Value x = c.in(0);
  const Value inside = c.times(c.mask(Relation::ge, x, c.constant(double{low}, x)),
                               c.mask(Relation::le, x, c.constant(double{high}, x)));
  c.add(0, c.times(c.grad(), inside));
}

void Unary::grad(GradContext& c) const { c.add(0, c.times(c.grad(), slope(c, fn, c.in(0), c.out()))); }

}  // namespace rlx
