// Gradients of ops/norm.h and of the ops along an axis of ops/reduction.h.
#include "ops/access.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/grad_context.h"
#include "ops/norm.h"
#include "ops/reduction.h"
#include "ops/select.h"
#include "ops/shape_ops.h"

namespace rlx {

// y = xhat (w + offset), xhat = x r, r = 1 / sqrt(mean(x^2) + eps):
// dx = r (gw - xhat mean(gw xhat)) with gw = g (w + offset); dw = g xhat.
void RmsNorm::grad(GradContext& c) const {
  const Shape shape = c.shape(0);
  Value x = c.in(0), g = c.grad();
  if (group > 0) {  // each run of `group` values is a row of its own
    Dim groups = ceil_div(shape.dim(-1), group);  // exact: infer() checks that the group divides it
    for (int i = 0; i + 1 < shape.rank(); ++i) groups = groups * shape.dim(i);
    const std::vector<Dim> dims = {groups, group};
    x = c.reshape(x, dims);
    g = c.reshape(g, dims);
  }
  const Value variance = c.mean(c.square(x), -1, true);
  const Value r = c.unary(UnaryFunction::rsqrt, c.plus(variance, c.constant(double{eps}, variance)));
  const Value xhat = c.times(x, r);
  if (c.wants(1)) c.add(1, c.times(g, xhat));
  if (!c.wants(0)) return;
  const Value w = c.in(1);
  const Value gw = c.times(g, weight_offset == 0.0f ? w : c.plus(w, c.constant(double{weight_offset}, w)));
  const Value mean = c.mean(c.times(gw, xhat), -1, true);
  const Value dx = c.times(r, c.minus(gw, c.times(xhat, mean)));
  c.add(0, group > 0 ? c.reshape(dx, shape.dims()) : dx);
}

// dx = r (gw - mean(gw) - xhat mean(gw xhat)), r = 1 / sqrt(variance + eps), gw = g w.
void LayerNorm::grad(GradContext& c) const {
  const Value x = c.in(0), g = c.grad();
  if (bias) c.add(2, g);
  const Value centred = c.minus(x, c.mean(x, -1, true)), variance = c.mean(c.square(centred), -1, true);
  const Value r = c.unary(UnaryFunction::rsqrt, c.plus(variance, c.constant(double{eps}, variance)));
  const Value xhat = c.times(centred, r);
  if (c.wants(1)) c.add(1, c.times(g, xhat));
  if (!c.wants(0)) return;
  const Value gw = c.times(g, c.in(1));
  const Value along = c.times(xhat, c.mean(c.times(gw, xhat), -1, true));
  c.add(0, c.times(r, c.minus(c.minus(gw, c.mean(gw, -1, true)), along)));
}

// dx = y (g - sum(g y)).
void Softmax::grad(GradContext& c) const {
  const Value y = c.out(), gy = c.times(c.grad(), y);
  c.add(0, c.minus(gy, c.times(y, c.sum(gy, axis, true))));
}

// dx = g - exp(y) sum(g).
void LogSoftmax::grad(GradContext& c) const {
  const Value p = c.unary(UnaryFunction::exp, c.out());
  c.add(0, c.minus(c.grad(), c.times(p, c.sum(c.grad(), axis, true))));
}

namespace {

// The product of all other values of a line, exact also where values are 0.
Value product_of_others(GradContext& c, Value x, int axis) {
  const Cumulative before{.kind = Reduction::prod, .axis = axis, .exclusive = true};
  const Cumulative after{.kind = Reduction::prod, .axis = axis, .exclusive = true, .reverse = true};
  return c.times(c.b(before, x), c.b(after, x));
}

}  // namespace

void Reduce::grad(GradContext& c) const {
  const Shape shape = c.shape(0);
  const int at = access::axis_of(axis, shape.rank());
  const Shape kept = shape.with_dim(at, 1);
  const Value g = keep_dims ? c.grad() : c.reshape(c.grad(), kept.dims());
  switch (kind) {
    case Reduction::sum:
      return c.add(0, g);
    case Reduction::mean: {
      const auto n = shape.dim(at).constant();
      if (n) return c.add(0, *n > 0 ? c.over(g, c.constant(static_cast<double>(*n), g)) : g);
      std::vector<Dim> line(static_cast<std::size_t>(shape.rank()), Dim(1));
      line[static_cast<std::size_t>(at)] = shape.dim(at);
      const Value ones = c.b(Full{.dims = DimList(line), .value = 1.0f});
      return c.add(0, c.over(g, c.sum(ones, at, true)));
    }
    case Reduction::prod:
      return c.add(0, c.times(g, product_of_others(c, c.in(0), at)));
    case Reduction::max:
    case Reduction::min: {  // shared by the values that are equal
      const Value y = keep_dims ? c.out() : c.reshape(c.out(), kept.dims());
      const Value chosen = c.mask(Relation::eq, c.in(0), y);
      return c.add(0, c.times(c.over(g, c.sum(chosen, at, true)), chosen));
    }
  }
}

namespace {

// g'[k] is what arrives at the reduction that ends with x[k]: an exclusive result k ends with the value before it.
Value moved_back(GradContext& c, Value g, bool reverse) {
  const Dim n = c.b.shape(g).dim(1);
  const Value rest = c.b(Slice{.axis = 1, .start = reverse ? 0 : 1, .stop = reverse ? n - 1 : n}, g);
  return c.b(Pad{.axis = 1, .before = reverse ? 1 : 0, .after = reverse ? 0 : 1}, rest);
}

// Running maxima: each stretch of equal results belongs to the value that set it. `relation`: a new value compared
// with the result before it.
Value of_stretches(GradContext& c, Value x, Value g, Relation relation, const Cumulative& op) {
  const Shape lines = c.b.shape(x);
  const Cumulative before{.kind = op.kind, .axis = 1, .exclusive = true, .reverse = op.reverse};
  const Value sets = c.compare(relation, x, c.b(before, x));
  const Value one = c.b(Full{.dims = {1, 1}, .value = 1.0f, .dtype = DType::i32});
  const Value none = c.b(Full{.dims = {1, 1}, .dtype = DType::i32});
  // The number of its stretch, from 1 on; 0 before any value beat the start.
  const Value number = c.b(Cumulative{.axis = 1, .reverse = op.reverse}, c.where(sets, one, none));
  const Dim places = lines.dim(1) + 1;
  c.check_flat(lines.dim(0) * places);
  const Value line = c.b(Iota{.dims = {lines.dim(0), 1}, .start = 0, .step = Dim(0) - places});
  const std::vector<Dim> all = {lines.elements()};
  const Value at = c.reshape(c.b(Sub{}, number, line), all);
  const Value sums = c.b(ScatterAdd{}, c.b(Full{.dims = {lines.dim(0) * places}}), at, c.reshape(g, all));
  const Value mine = c.reshape(c.b(Gather{}, sums, at), lines.dims());
  return c.where(sets, mine, c.constant(0, mine));
}

// Running products, exact also where values are 0: dx[i] = (product before i) * t[i],
// t[i] = sum over k >= i of g[k] times the product of x[i + 1 .. k].
Value of_products(GradContext& c, Value x, Value g, bool reverse) {
  const Dim lines = c.b.shape(x).dim(0), n = c.b.shape(x).dim(1);
  const Value i = c.b(Iota{.dims = {1, n, 1}, .axis = 1}), k = c.b(Iota{.dims = {1, 1, n}, .axis = 2});
  const Relation after = reverse ? Relation::lt : Relation::gt, from = reverse ? Relation::le : Relation::ge;
  const Value row = c.reshape(x, std::vector<Dim>{lines, 1, n});
  const Value factors = c.where(c.compare(after, k, i), row, c.constant(1, row));
  const Value products = c.b(Cumulative{.kind = Reduction::prod, .axis = 2, .reverse = reverse}, factors);
  const Value terms = c.times(products, c.reshape(g, std::vector<Dim>{lines, 1, n}));
  const Value kept = c.where(c.compare(from, k, i), terms, c.constant(0, terms));
  const Cumulative before{.kind = Reduction::prod, .axis = 1, .exclusive = true, .reverse = reverse};
  return c.times(c.b(before, x), c.sum(kept, 2, false));
}

}  // namespace

void Cumulative::grad(GradContext& c) const {
  if (kind == Reduction::sum) {
    return c.add(0, c.b(Cumulative{.axis = axis, .exclusive = exclusive, .reverse = !reverse}, c.grad()));
  }
  const Shape shape = c.shape(0);
  const int at = access::axis_of(axis, shape.rank());
  if (shape.dim(at) == Dim(0)) return;
  const Value x = c.as_lines(c.in(0), at);
  Value g = c.as_lines(c.grad(), at);
  if (exclusive) g = moved_back(c, g, reverse);
  const Value dx = kind == Reduction::prod  ? of_products(c, x, g, reverse)
                   : kind == Reduction::max ? of_stretches(c, x, g, Relation::gt, *this)
                                            : of_stretches(c, x, g, Relation::lt, *this);
  c.add(0, c.from_lines(dx, shape, at));
}

}  // namespace rlx
