// Gradients of ops/index.h and ops/select.h: what was read from a place is added to that place.
#include "ops/access.h"
#include "ops/constant.h"
#include "ops/grad_context.h"
#include "ops/index.h"
#include "ops/select.h"
#include "ops/shape_ops.h"

namespace rlx {
namespace {

Value joined(GradContext& c, Value x) { return c.reshape(x, std::vector<Dim>{c.b.shape(x).elements()}); }

// Result 0 holds the values at `index` of each line of operand 0.
void scatter_lines(GradContext& c, Value index, int axis) {
  const Shape x = c.shape(0);
  const int at = access::axis_of(axis, x.rank());
  const Value grads = c.as_lines(c.grad(), at), places = c.as_lines(index, at);
  const Shape lines = c.b.shape(grads);
  c.check_flat(lines.dim(0) * x.dim(at));
  // Place p of line l is element l n + p of the joined lines.
  const Value before = c.b(Iota{.dims = {lines.dim(0), 1}, .start = 0, .step = Dim(0) - x.dim(at)});
  const Value flat = joined(c, c.b(Sub{}, places, before));
  const Value zeros = c.b(Full{.dims = {lines.dim(0) * x.dim(at)}});
  const Value sums = c.b(ScatterAdd{}, zeros, flat, joined(c, grads));
  c.add(0, c.from_lines(c.reshape(sums, std::vector<Dim>{lines.dim(0), x.dim(at)}), x, at));
}

}  // namespace

void Embedding::grad(GradContext& c) const {
  c.add(0, c.b(ScatterAdd{}, c.fill(c.shape(0), 0), c.raw(1), c.scaled(c.grad(), double{scale})));
}

void SelectRows::grad(GradContext& c) const {
  if (!is_float(c.shape(0).dtype)) c.unsupported("int8 rows have no gradient");
  c.add(0, c.b(ScatterAdd{}, c.fill(c.shape(0), 0), c.raw(1), c.grad()));
}

void Gather::grad(GradContext& c) const {
  const Shape x = c.shape(0);
  const int at = access::axis_of(axis, x.rank());
  const Value index = joined(c, c.raw(1));
  const Shape picked = x.with_dim(at, c.b.shape(index).dim(0));
  c.add(0, c.b(ScatterAdd{.axis = at}, c.fill(x, 0), index, c.reshape(c.grad(), picked.dims())));
}

void ScatterAdd::grad(GradContext& c) const {
  const int at = access::axis_of(axis, c.out_shape().rank());
  const Value index = c.raw(1);
  if (!replace) {
    c.add(0, c.grad());
    if (c.wants(2)) c.add(2, c.b(Gather{.axis = at}, c.grad(), index));
    return;
  }
  // Of x nothing is left at the places; of repeated updates the last one is.
  if (c.wants(0))
    c.add(0, c.b(ScatterAdd{.axis = at, .replace = true}, c.grad(), index, c.fill(c.shape(2), 0)));
  if (!c.wants(2)) return;
  const Dim m = c.shape(1).dim(0);
  const Value order = c.b(Iota{.dims = {m}});
  const Value nobody = c.b(Full{.dims = {c.out_shape().dim(at)}, .dtype = DType::i32});
  const Value last = c.b(Gather{}, c.b(ScatterAdd{.replace = true}, nobody, index, order), index);
  std::vector<Dim> along(static_cast<std::size_t>(c.out_shape().rank()), Dim(1));
  along[static_cast<std::size_t>(at)] = m;
  const Value stays = c.reshape(c.compare(Relation::eq, last, order), along);
  const Value g = c.b(Gather{.axis = at}, c.grad(), index);
  c.add(2, c.where(stays, g, c.constant(0, g)));
}

void TopK::grad(GradContext& c) const { scatter_lines(c, c.raw_out(1), axis); }
void Sort::grad(GradContext& c) const { scatter_lines(c, c.raw_out(1), axis); }
void TakeAlongAxis::grad(GradContext& c) const { scatter_lines(c, c.raw(1), axis); }

}  // namespace rlx
