#include "compiler/passes/propagate_layout.h"

#include <array>
#include <numeric>

#include "ir/rewrite.h"
#include "ops/elementwise.h"
#include "ops/shape_ops.h"

namespace rlx {
namespace {

using Order = std::vector<int>;

// y's axis i is x's axis order[i].
Order order_of(const Transpose& t, int rank) {
  Order order;
  for (int i = 0; i < rank; ++i) {
    const int axis = t.axes.size() == 0 ? rank - 1 - i : t.axes[i];
    order.push_back(axis < 0 ? axis + rank : axis);
  }
  return order;
}

Value transposed(Builder& b, Value x, const Order& order) {
  Order same(order.size());
  std::iota(same.begin(), same.end(), 0);
  return order == same ? x : b(Transpose{.axes = Axes(std::span<const int>(order))}, x);
}

// An op on one operand that treats all elements alike, whatever their places.
bool pointwise(const Node& n) { return n.def->has(Trait::elementwise) && n.inputs.size() == 1; }

Value again(Builder& b, const Node& n, Value x) { return b.graph().add(*n.def, n.attrs, {x}, n.origin); }

// transpose(transpose(x)), and transpose(f(transpose(x))) for a pointwise f.
Rewriter::Answer fold_transpose(const Rewriter& rewriter, const Rewriter::Site& s) {
  const int rank = s.node.results[0].rank();
  Order order = order_of(*s.node.as<Transpose>(), rank);
  const Node* before = &rewriter.producer(s.node, 0);
  const Node* between = nullptr;
  if (pointwise(*before) && rewriter.single_use(s.node.inputs[0]) && rewriter.producer(*before, 0).is<Transpose>()) {
    between = before;
    before = &rewriter.producer(*between, 0);
  }
  const auto first = before->as<Transpose>();
  if (!first) {
    const Value same = transposed(s.b, s.inputs[0], order);
    return same == s.inputs[0] ? Rewriter::Answer{same} : Rewriter::Answer{};
  }
  const Order inner = order_of(*first, rank);
  for (int& axis : order) axis = inner[static_cast<std::size_t>(axis)];
  const Value x = transposed(s.b, rewriter.now(before->inputs[0]), order);
  return {between != nullptr ? again(s.b, *between, x) : x};
}

// reshape(reshape(x)), reshape(f(reshape(x))) for a pointwise f, and a reshape to the same dims.
Rewriter::Answer fold_reshape(const Rewriter& rewriter, const Rewriter::Site& s) {
  const Shape& to = s.node.results[0];
  const auto reshaped = [&](Value x) {
    return s.b.shape(x).with(to.dtype) == to ? x : s.b(Reshape{.dims = DimList(to.dims())}, x);
  };
  if (s.b.shape(s.inputs[0]) == to) return {s.inputs[0]};
  const Node& before = rewriter.producer(s.node, 0);
  if (before.is<Reshape>()) return {reshaped(rewriter.now(before.inputs[0]))};
  if (!pointwise(before) || !rewriter.single_use(s.node.inputs[0]) || !rewriter.producer(before, 0).is<Reshape>())
    return {};
  return {again(s.b, before, reshaped(rewriter.now(rewriter.producer(before, 0).inputs[0])))};
}

// A cast to the dtype that is there, and a cast after one that lost nothing.
Rewriter::Answer fold_cast(const Rewriter& rewriter, const Rewriter::Site& s) {
  const DType to = s.node.as<Cast>()->to;
  if (s.b.shape(s.inputs[0]).dtype == to) return {s.inputs[0]};
  const Node& before = rewriter.producer(s.node, 0);
  const auto first = before.as<Cast>();
  if (!first || first->to != DType::f32) return {};
  const Value x = rewriter.now(before.inputs[0]);
  // An integer above 2^24 is rounded on its way through f32.
  if (const DType from = s.b.shape(x).dtype; from != DType::f16 && from != DType::bf16) return {};
  return {s.b.shape(x).dtype == to ? x : s.b(Cast{.to = to}, x)};
}

// An operand that is repeated to the result's shape repeats by itself when another operand has that shape.
Rewriter::Answer drop_repeats(const Rewriter& rewriter, const Rewriter::Site& s) {
  if (!s.node.def->has(Trait::elementwise) || s.node.inputs.size() < 2) return {};
  const auto full = [&](std::size_t i) {
    const Shape& shape = rewriter.old().shape(s.node.inputs[i]);
    return !rewriter.producer(s.node, i).is<BroadcastTo>() &&
           shape.with(DType::f32) == s.node.results[0].with(DType::f32);
  };
  bool any = false;
  for (std::size_t i = 0; i < s.node.inputs.size(); ++i) any |= full(i);
  if (!any) return {};
  std::vector<Value> operands(s.inputs.begin(), s.inputs.end());
  bool changed = false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Node& n = rewriter.producer(s.node, i);
    if (!n.is<BroadcastTo>()) continue;
    operands[i] = rewriter.now(n.inputs[0]);
    changed = true;
  }
  if (!changed) return {};
  return {s.b.graph().add(*s.node.def, s.node.attrs, std::move(operands), s.node.origin)};
}

}  // namespace

bool propagate_layout(Graph& graph, const PassContext&) {
  bool changed = false;
  // Each round takes a pair away, so that there is an end.
  for (bool again_changed = true; again_changed;) {
    Rewriter rewriter(graph);
    again_changed = rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
      if (s.node.is<Transpose>()) return fold_transpose(rewriter, s);
      if (s.node.is<Reshape>()) return fold_reshape(rewriter, s);
      if (s.node.is<Cast>()) return fold_cast(rewriter, s);
      return drop_repeats(rewriter, s);
    });
    changed |= again_changed;
  }
  return changed;
}

}  // namespace rlx
