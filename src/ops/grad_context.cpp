#include "ops/grad_context.h"

#include "base/error.h"
#include "ops/access.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/reduction.h"
#include "ops/shape_ops.h"

namespace rlx {

std::string node_text(const Node& node, std::int32_t index) {
  return node.origin.empty() ? fmt::format("{} (node %{})", node.def->name, index)
                             : fmt::format("{} (node %{}, in {})", node.def->name, index, node.origin);
}

GradContext::GradContext(Builder& builder, const Node& node, std::vector<Value> results, std::vector<Value> grads,
                         std::vector<bool> wanted)
    : b(builder),
      node_(node),
      results_(std::move(results)),
      grads_(std::move(grads)),
      wanted_(std::move(wanted)),
      contributions_(node_.inputs.size()),
      starts_(node_.inputs.size()) {}

Value GradContext::grad(int i) {
  Value& g = grads_[static_cast<std::size_t>(i)];
  if (!g) g = fill(out_shape(i), 0.0);
  return g;
}

// A view of its own: what the operand is made of stays outside of the ops that follow.
Value GradContext::fresh(int i) {
  Value& start = starts_[static_cast<std::size_t>(i)];
  if (!start) start = reshape(in(i), shape(i).dims());
  return start;
}

void GradContext::add(int i, Value g) {
  if (!wants(i)) return;
  contributions_[static_cast<std::size_t>(i)].push_back(fit(g, shape(i)));
}

void GradContext::unsupported(std::string_view why) const {
  fail(ErrorCode::unsupported, "grad: {}: {}", node_text(node_, results_[0].node), why);
}

void GradContext::check_flat(Dim count) const {
  if (const auto n = count.constant(); n && *n >= std::int64_t{1} << 31)
    unsupported(fmt::format("expected less than 2^31 values to number, found {}", *n));
}

// Sums g over what `to` was repeated along, and repeats what g has once.
Value GradContext::fit(Value g, const Shape& to) {
  const int more = b.shape(g).rank() - to.rank();
  if (more > 0) {
    const std::span<const Dim> dims = b.shape(g).dims();
    Dim leading = 1;
    for (int i = 0; i < more; ++i) leading = leading * dims[static_cast<std::size_t>(i)];
    std::vector<Dim> joined = {leading};
    joined.insert(joined.end(), dims.begin() + more, dims.end());
    g = sum(more == 1 ? g : reshape(g, joined), 0, false);
  }
  for (int axis = 0; axis < to.rank() && b.shape(g).rank() == to.rank(); ++axis)
    if (to.dim(axis) == Dim(1) && !(b.shape(g).dim(axis) == Dim(1))) g = sum(g, axis, true);
  const Shape found = b.shape(g);
  const bool equal = std::equal(found.dims().begin(), found.dims().end(), to.dims().begin(), to.dims().end());
  return equal ? g : broadcast_to(g, to.dims());
}

Value GradContext::f32(Value v) {
  const Shape& shape = b.shape(v);
  if (shape.dtype == DType::f32 || shape.is_state() ||
      (shape.dtype != DType::f16 && shape.dtype != DType::bf16))
    return v;
  return b(Cast{.to = DType::f32}, v);
}
Value GradContext::plus(Value x, Value y) { return b(Add{}, x, y); }
Value GradContext::minus(Value x, Value y) { return b(Sub{}, x, y); }
Value GradContext::times(Value x, Value y) { return b(Mul{}, x, y); }
Value GradContext::over(Value x, Value y) { return b(Div{}, x, y); }
Value GradContext::scaled(Value x, double factor) {
  return factor == 1.0 ? x : b(Scale{.factor = static_cast<float>(factor)}, x);
}
Value GradContext::unary(UnaryFunction fn, Value x) { return b(Unary{.fn = fn}, x); }
Value GradContext::where(Value cond, Value x, Value y) { return b(Where{}, cond, x, y); }
Value GradContext::compare(Relation relation, Value x, Value y) { return b(Compare{.relation = relation}, x, y); }
Value GradContext::constant(double value, Value like) {
  const std::vector<Dim> ones(static_cast<std::size_t>(b.shape(like).rank()), Dim(1));
  return b(Full{.dims = DimList(ones), .value = static_cast<float>(value)});
}
Value GradContext::mask(Relation relation, Value x, Value y) {
  return where(compare(relation, x, y), constant(1, x), constant(0, x));
}
Value GradContext::fill(const Shape& shape, double value) {
  return b(Full{.dims = DimList(shape.dims()), .value = static_cast<float>(value)});
}
Value GradContext::sum(Value x, int axis, bool keep_dims) {
  return b(Reduce{.kind = Reduction::sum, .axis = axis, .keep_dims = keep_dims}, x);
}
Value GradContext::mean(Value x, int axis, bool keep_dims) {
  return b(Reduce{.kind = Reduction::mean, .axis = axis, .keep_dims = keep_dims}, x);
}
Value GradContext::reshape(Value x, std::span<const Dim> dims) { return b(Reshape{.dims = DimList(dims)}, x); }
Value GradContext::broadcast_to(Value x, std::span<const Dim> dims) {
  return b(BroadcastTo{.dims = DimList(dims)}, x);
}

Value GradContext::as_lines(Value x, int axis) {
  const Shape shape = b.shape(x);
  const int at = access::axis_of(axis, shape.rank());
  std::vector<int> order;
  Dim lines = 1;
  for (int i = 0; i < shape.rank(); ++i)
    if (i != at) {
      order.push_back(i);
      lines = lines * shape.dim(i);
    }
  order.push_back(at);
  if (at != shape.rank() - 1) x = b(Transpose{.axes = Axes(order)}, x);
  return reshape(x, std::vector<Dim>{lines, shape.dim(at)});
}

Value GradContext::from_lines(Value lines, const Shape& like, int axis) {
  const int at = access::axis_of(axis, like.rank()), last = like.rank() - 1;
  std::vector<Dim> dims;
  std::vector<int> order;
  for (int i = 0; i < like.rank(); ++i) {
    if (i != at) dims.push_back(like.dim(i));
    order.push_back(i < at ? i : i == at ? last : i - 1);
  }
  dims.push_back(like.dim(at));
  const Value moved = reshape(lines, dims);
  return at == last ? moved : b(Transpose{.axes = Axes(order)}, moved);
}

}  // namespace rlx
