// Gradients of products: ops/product.h, ops/matmul.h, ops/weight_product.h and ops/quant.h.
#include <algorithm>

#include "ops/access.h"
#include "ops/activation_slope.h"
#include "ops/grad_context.h"
#include "ops/matmul.h"
#include "ops/product.h"
#include "ops/quant.h"
#include "ops/shape_ops.h"
#include "ops/weight_product.h"

namespace rlx {
namespace {

// x [..., n] as [rows, n].
Value as_matrix(GradContext& c, Value x) {
  const Shape shape = c.b.shape(x);
  if (shape.rank() == 2) return x;
  Dim rows = 1;
  for (int i = 0; i + 1 < shape.rank(); ++i) rows = rows * shape.dim(i);
  return c.reshape(x, std::vector<Dim>{rows, shape.dim(-1)});
}

// left^T right of two matrices with as many rows.
Value outer(GradContext& c, Value left, Value right) {
  return c.b(BatchedMatmul{.transpose_a = true}, as_matrix(c, left), as_matrix(c, right));
}

}  // namespace

Value stored_weight(GradContext& c, Value w) {
  const Node& made = c.b.graph().node(w);
  return made.is<Pack>() ? made.inputs[0] : w;
}

void BatchedMatmul::grad(GradContext& c) const {
  const Value a = c.in(0), b = c.in(1), g = c.grad();
  if (c.wants(0))
    c.add(0, transpose_a ? c.b(BatchedMatmul{.transpose_a = transpose_b, .transpose_b = true}, b, g)
                         : c.b(BatchedMatmul{.transpose_b = !transpose_b}, g, b));
  if (c.wants(1))
    c.add(1, transpose_b ? c.b(BatchedMatmul{.transpose_a = true, .transpose_b = transpose_a}, g, a)
                         : c.b(BatchedMatmul{.transpose_a = !transpose_a}, a, g));
}

namespace {

// One side of a dot_general.
struct Side {
  std::vector<int> batch, contract, free;
  Side(const Axes& batch_axes, const Axes& contract_axes, int rank) {
    for (int i = 0; i < batch_axes.size(); ++i) batch.push_back(access::axis_of(batch_axes[i], rank));
    for (int i = 0; i < contract_axes.size(); ++i) contract.push_back(access::axis_of(contract_axes[i], rank));
    for (int i = 0; i < rank; ++i)
      if (std::find(batch.begin(), batch.end(), i) == batch.end() &&
          std::find(contract.begin(), contract.end(), i) == contract.end())
        free.push_back(i);
  }
};

std::vector<int> counted(std::size_t first, std::size_t count) {
  std::vector<int> axes;
  for (std::size_t i = 0; i < count; ++i) axes.push_back(static_cast<int>(first + i));
  return axes;
}

// The gradient of the side `mine`: g with the other operand over the other's free axes, which lie in g from
// `other_free` on. The product's dims are the batch, then mine.free and the contracted axes in the order that the
// operands have; they go back to where this operand has them.
Value side_grad(GradContext& c, const Side& mine, const Side& theirs, Value other, std::size_t other_free) {
  const Axes g_batch(counted(0, mine.batch.size())), g_contract(counted(other_free, theirs.free.size()));
  const Value y = c.b(DotGeneral{.a_contract = g_contract, .b_contract = Axes(theirs.free), .a_batch = g_batch,
                                 .b_batch = Axes(theirs.batch)},
                      c.grad(), other);
  // Axes of y: which axis of my operand each one is. The other's contracted axes come in its own order.
  std::vector<int> made = mine.batch;
  made.insert(made.end(), mine.free.begin(), mine.free.end());
  std::vector<int> order = theirs.contract;
  std::sort(order.begin(), order.end());
  for (const int axis : order) {
    const auto pair = std::find(theirs.contract.begin(), theirs.contract.end(), axis) - theirs.contract.begin();
    made.push_back(mine.contract[static_cast<std::size_t>(pair)]);
  }
  std::vector<int> back(made.size());
  for (std::size_t i = 0; i < made.size(); ++i) back[static_cast<std::size_t>(made[i])] = static_cast<int>(i);
  return made.empty() ? y : c.b(Transpose{.axes = Axes(back)}, y);
}

}  // namespace

void DotGeneral::grad(GradContext& c) const {
  const Side a(a_batch, a_contract, c.shape(0).rank()), b(b_batch, b_contract, c.shape(1).rank());
  if (c.wants(0)) c.add(0, side_grad(c, a, b, c.in(1), a.batch.size() + a.free.size()));
  if (c.wants(1)) c.add(1, side_grad(c, b, a, c.in(0), a.batch.size()));
}

void Linear::grad(GradContext& c) const {
  Value g = c.grad();
  if (residual) c.add(residual_at(), g);
  if (!c.wants(0) && !c.wants(1) && !c.wants(bias_at())) return;
  if (act != Act::none) {
    const Linear inner{.bias = bias};
    const Value before = bias ? c.b(inner, c.raw(0), c.raw(1), c.raw(2)) : c.b(inner, c.raw(0), c.raw(1));
    g = c.times(g, activation_slope(c, act, before));
  }
  if (bias) c.add(bias_at(), g);
  if (c.wants(0)) c.add(0, c.b(LinearTransposed{}, g, stored_weight(c, c.raw(1))));
  if (!c.wants(1)) return;
  if (!is_float(c.shape(0).dtype)) c.unsupported("its weight has no gradient, since x is in int8 groups");
  c.add(1, outer(c, g, c.in(0)));
}

void LinearTransposed::grad(GradContext& c) const {
  if (c.wants(0)) c.add(0, c.b(Linear{}, c.grad(), c.raw(1)));
  if (c.wants(1)) c.add(1, outer(c, c.in(0), c.grad()));
}

void TransposeWeight::grad(GradContext& c) const { c.add(0, c.b(Transpose{.axes = {1, 0}}, c.grad())); }

}  // namespace rlx
