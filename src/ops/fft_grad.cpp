// Gradients of ops/fft.h: the transforms are linear, so each is the adjoint matrix, written with the others.
#include "ops/fft.h"
#include "ops/grad_context.h"
#include "tensor/tensor.h"

namespace rlx {
namespace {

std::int64_t known_length(GradContext& c, Dim n) {
  if (!n.constant()) c.unsupported("its length must be known");
  return *n.constant();
}

// Per bin of the first half of a transform of n numbers: `ends` for those without a conjugate elsewhere (0, and n / 2
// for even n), `inner` for the others. f32[m, 2], with `imaginary_ends` at the imaginary parts of the ends.
Value bins(GradContext& c, std::int64_t n, float ends, float inner, float imaginary_ends) {
  const std::int64_t m = n / 2 + 1;
  Tensor t = Tensor::zeros({m, 2});
  const auto values = t.mutable_as<float>();
  for (std::int64_t i = 0; i < m; ++i) {
    const bool end = i == 0 || (n % 2 == 0 && i == n / 2);
    values[static_cast<std::size_t>(2 * i)] = end ? ends : inner;
    values[static_cast<std::size_t>(2 * i + 1)] = end ? imaginary_ends : inner;
  }
  return c.b.constant(t);
}

}  // namespace

void Fft::grad(GradContext& c) const {
  const auto n = static_cast<double>(known_length(c, c.shape(0).dim(-2)));
  const Value g = c.b(Fft{.inverse = !inverse}, c.grad());
  c.add(0, c.scaled(g, inverse ? 1.0 / n : n));
}

void RealFft::grad(GradContext& c) const {
  const Dim length = c.shape(0).dim(-1);
  const std::int64_t n = known_length(c, length);
  const Value g = c.times(c.grad(), bins(c, n, 1.0f, 0.5f, 0.0f));
  c.add(0, c.scaled(c.b(InverseRealFft{.n = length}, g), static_cast<double>(n)));
}

void InverseRealFft::grad(GradContext& c) const {
  const std::int64_t length = known_length(c, c.out_shape().dim(-1));
  const Value g = c.times(c.b(RealFft{}, c.grad()), bins(c, length, 1.0f, 2.0f, 0.0f));
  c.add(0, c.scaled(g, 1.0 / static_cast<double>(length)));
}

}  // namespace rlx
