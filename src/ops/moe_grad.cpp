// Gradients of ops/moe.h and ops/expert_product.h. The other ops of experts have bodies.
#include "ops/expert_product.h"
#include "ops/grad_context.h"
#include "ops/moe.h"
#include "ops/product.h"
#include "ops/select.h"
#include "ops/weight_product.h"

namespace rlx {
namespace {

// Rows that all slots share are of the sum over the slots.
void add_per_slot(GradContext& c, int i, Value g) { c.add(i, c.shape(i).rank() == 2 ? c.sum(g, 1, false) : g); }

// The sum of g's rows by expert: [experts, n]. Ids outside have no place in the one-hot rows.
Value by_expert(GradContext& c, Value ids, Value g, Dim experts) {
  const Shape pairs = c.b.shape(ids);
  const Dim count = pairs.elements();
  const Value hot = c.reshape(c.b(OneHot{.depth = experts}, ids), std::vector<Dim>{count, experts});
  const Value rows = c.reshape(g, std::vector<Dim>{count, c.b.shape(g).dim(-1)});
  return c.b(BatchedMatmul{.transpose_a = true}, hot, rows);
}

}  // namespace

void ExpertLinear::grad(GradContext& c) const {
  const Value g = c.grad(), ids = c.raw(1);
  if (bias && c.wants(3)) c.add(3, by_expert(c, ids, g, c.shape(3).dim(0)));
  if (c.wants(0)) add_per_slot(c, 0, c.b(ExpertLinearTransposed{}, g, ids, stored_weight(c, c.raw(2))));
  if (!c.wants(2)) return;
  if (!is_float(c.shape(0).dtype)) c.unsupported("its weight has no gradient, since x is in int8 groups");
  c.add(2, c.b(ExpertOuter{.experts = c.shape(2).dim(0)}, g, ids, c.in(0)));
}

void ExpertLinearTransposed::grad(GradContext& c) const {
  if (c.wants(0)) c.add(0, c.b(ExpertLinear{}, c.grad(), c.raw(1), c.raw(2)));
  if (c.wants(2)) c.add(2, c.b(ExpertOuter{.experts = c.shape(2).dim(0)}, c.in(0), c.raw(1), c.grad()));
}

void ExpertOuter::grad(GradContext& c) const {
  if (c.wants(0)) c.add(0, c.b(ExpertLinear{}, c.in(2), c.raw(1), c.grad()));
  if (c.wants(2)) add_per_slot(c, 2, c.b(ExpertLinearTransposed{}, c.in(0), c.raw(1), c.grad()));
}

}  // namespace rlx
