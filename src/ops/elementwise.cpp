#include "ops/elementwise.h"

#include <algorithm>
#include <cmath>

#include "ops/access.h"
#include "ops/checks.h"

namespace rlx {
namespace {

// The size that two aligned dims broadcast to. A symbolic size never repeats: it must equal the other one.
Dim broadcast_dim(InferContext& c, Dim a, Dim b) {
  if (a == b || b == Dim(1)) return a;
  if (a == Dim(1)) return b;
  checks::same(c, a, b, [&] {
    return fmt::format("a {} and b {} do not broadcast: {} and {} differ", checks::dims_text(c.in(0)), checks::dims_text(c.in(1)),
                       a.text(), b.text());
  });
  return a.is_constant() ? a : b;
}

void infer_broadcast(InferContext& c) {
  checks::operand_count(c, 2);
  for (int i : {0, 1}) {
    c.dtype(i, {DType::f32});
    checks::plain(c, i, DType::f32, c.in(i).rank());
  }
  const Shape &a = c.in(0), &b = c.in(1);
  const int rank = std::max(a.rank(), b.rank());
  std::array<Dim, kMaxRank> dims;
  for (int i = 1; i <= rank; ++i) {
    const Dim da = i <= a.rank() ? a.dim(-i) : Dim(1), db = i <= b.rank() ? b.dim(-i) : Dim(1);
    dims[static_cast<std::size_t>(rank - i)] = broadcast_dim(c, da, db);
  }
  c.out(Shape(std::span<const Dim>(dims.data(), static_cast<std::size_t>(rank)), DType::f32));
}

template <typename F>
void binary(const KernelArgs& a, F f) {
  const TensorView& y = a.out[0];
  const std::int64_t n = access::columns(y);
  std::vector<double> left(static_cast<std::size_t>(n)), right(left.size());
  const auto part = access::part_of(a, access::row_count(y));
  for (std::int64_t r = part.begin; r < part.end; ++r) {
    access::load_broadcast(a.in[0], y, r, left.data());
    access::load_broadcast(a.in[1], y, r, right.data());
    for (std::size_t i = 0; i < left.size(); ++i) left[i] = f(left[i], right[i]);
    access::store_row(y, r, left.data());
  }
}

template <typename F>
void unary(const KernelArgs& a, F f) {
  const TensorView& y = a.out[0];
  std::vector<double> values(static_cast<std::size_t>(access::columns(y)));
  const auto part = access::part_of(a, access::row_count(y));
  for (std::int64_t r = part.begin; r < part.end; ++r) {
    access::load_row(a.in[0], r, values.data());
    for (double& v : values) v = f(v);
    access::store_row(y, r, values.data());
  }
}

void infer_unary(InferContext& c) {
  checks::operand_count(c, 1);
  c.dtype(0, {DType::f32});
  checks::plain(c, 0, DType::f32, c.in(0).rank());
  c.out(c.in(0));
}

}  // namespace

void Add::infer(InferContext& c) const { infer_broadcast(c); }
void Add::reference(const KernelArgs& a) const {
  binary(a, [](double x, double y) { return x + y; });
}

void Mul::infer(InferContext& c) const { infer_broadcast(c); }
void Mul::reference(const KernelArgs& a) const {
  binary(a, [](double x, double y) { return x * y; });
}

void Activation::infer(InferContext& c) const { infer_unary(c); }
void Activation::reference(const KernelArgs& a) const {
  unary(a, [&](double x) { return apply(act, x); });
}

void Scale::infer(InferContext& c) const { infer_unary(c); }
void Scale::reference(const KernelArgs& a) const {
  unary(a, [&](double x) { return x * double{factor}; });
}

void Softcap::infer(InferContext& c) const {
  if (!(cap > 0.0f)) c.fail("cap: expected a value above 0, found {}", cap);
  infer_unary(c);
}
void Softcap::reference(const KernelArgs& a) const {
  unary(a, [&](double x) { return double{cap} * std::tanh(x / double{cap}); });
}

void Cast::infer(InferContext& c) const {
  checks::operand_count(c, 1);
  c.dtype(0, {DType::f32, DType::f16, DType::bf16});
  checks::plain(c, 0, c.in(0).dtype, c.in(0).rank());
  if (to != DType::f32 && to != DType::f16 && to != DType::bf16)
    c.fail("to: expected f32, f16 or bf16, found {}", rlx::name(to));
  c.out(c.in(0).with(to));
}
void Cast::reference(const KernelArgs& a) const {
  unary(a, [](double x) { return x; });
}

}  // namespace rlx
