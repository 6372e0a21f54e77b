// Gradients of ops/elementwise.h.
#include <cmath>
#include <numbers>

#include "ops/activation_slope.h"
#include "ops/elementwise.h"
#include "ops/grad_context.h"

namespace rlx {
namespace {

// d act(x) / dx of the two forms of GELU (https://arxiv.org/abs/1606.08415).
Value gelu_slope(GradContext& c, Value x) {
  const Value half = c.constant(0.5, x);
  const Value cdf = c.plus(half, c.scaled(c.unary(UnaryFunction::erf, c.scaled(x, std::numbers::sqrt2 / 2)), 0.5));
  const Value density = c.scaled(c.unary(UnaryFunction::exp, c.scaled(c.square(x), -0.5)),
                                 std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  return c.plus(cdf, c.times(x, density));
}

Value gelu_tanh_slope(GradContext& c, Value x) {
  const double a = std::sqrt(2.0 / std::numbers::pi), cubic = 0.044715;
  const Value one = c.constant(1, x), squared = c.square(x);
  const Value inner = c.scaled(c.times(x, c.plus(one, c.scaled(squared, cubic))), a);
  const Value t = c.unary(UnaryFunction::tanh, inner);
  const Value dinner = c.scaled(c.plus(one, c.scaled(squared, 3 * cubic)), a);
  const Value rise = c.times(c.times(x, c.minus(one, c.square(t))), dinner);
  return c.scaled(c.plus(c.plus(one, t), rise), 0.5);
}

Value silu_slope(GradContext& c, Value x) {
  const Value s = c.unary(UnaryFunction::sigmoid, x), one = c.constant(1, x);
  return c.times(s, c.plus(one, c.times(x, c.minus(one, s))));
}

}  // namespace

Value activation_slope(GradContext& c, Act act, Value x) {
  switch (act) {
    case Act::none:
      break;
    case Act::silu:
      return silu_slope(c, x);
    case Act::gelu_tanh:
      return gelu_tanh_slope(c, x);
    case Act::gelu:
      return gelu_slope(c, x);
    case Act::relu:
      return c.mask(Relation::gt, x, c.constant(0, x));
  }
  return c.constant(1, x);
}

void Add::grad(GradContext& c) const {
  c.add(0, c.grad());
  c.add(1, c.grad());
}

void Mul::grad(GradContext& c) const {
  if (c.wants(0)) c.add(0, c.times(c.grad(), c.in(1)));
  if (c.wants(1)) c.add(1, c.times(c.grad(), c.in(0)));
}

void Activation::grad(GradContext& c) const {
  c.add(0, act == Act::none ? c.grad() : c.times(c.grad(), activation_slope(c, act, c.in(0))));
}

void Scale::grad(GradContext& c) const { c.add(0, c.scaled(c.grad(), double{factor})); }

// y = cap tanh(x / cap): dy/dx = 1 - (y / cap)^2.
void Softcap::grad(GradContext& c) const {
  const Value ratio = c.scaled(c.out(), 1.0 / double{cap});
  c.add(0, c.times(c.grad(), c.minus(c.constant(1, ratio), c.square(ratio))));
}

void Cast::grad(GradContext& c) const { c.add(0, c.grad()); }

}  // namespace rlx
