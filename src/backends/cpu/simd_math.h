// exp, tanh, erf and the activation functions on sixteen lanes. Errors: at most 4 units in the last
// place (quality.md, 4.3). NaN gives NaN; exp overflows to infinity and underflows through the
// denormals to 0. Polynomials are minimax fits of this project.
#pragma once

#include "backends/cpu/simd.h"
#include "ops/activation.h"

namespace rlx::cpu::RLX_ISA_LEVEL {

/// 2^n for whole n in -126 .. 127.
RLX_SIMD f32x16 exp2_whole(i32x16 n) { return as_f32(shl<23>(n + set1_i32(127))); }

/// p * 2^n for whole n in -250 .. 250: in two steps, since 2^n alone may be out of range where the product is not.
RLX_SIMD f32x16 scale_by_power(f32x16 p, f32x16 n) {
#if defined(RLX_WIDE)
  return {_mm512_scalef_ps(p.v, n.v)};  // rounds once too
#else
  const i32x16 whole = to_i32(n), half = sar<1>(whole);
  return p * exp2_whole(half) * exp2_whole(whole - half);
#endif
}

/// 2^x for x in -160 .. 120. Relative error of the fit 9e-8.
RLX_SIMD f32x16 exp2_in_range(f32x16 x) {
  const f32x16 n = round_even(x), r = x - n;
  f32x16 q = set1(1.326472708e-03f);
  q = fma(q, r, set1(9.671512862e-03f));
  q = fma(q, r, set1(5.550733746e-02f));
  q = fma(q, r, set1(2.402224208e-01f));
  q = fma(q, r, set1(6.931469776e-01f));
  return scale_by_power(fma(q, r, set1(1.0f)), n);
}

/// 2^x for x of at most 0, 0 for those below -150: weights of a softmax.
RLX_SIMD f32x16 exp2_of_negative(f32x16 x) {
  return exp2_in_range(max(set1(-160.0f), x));  // NaN stays
}

/// e^x = 2^n * e^r with |r| <= ln(2) / 2 and e^r = 1 + r + r^2 q(r), relative error of the fit 3e-9.
RLX_SIMD f32x16 exp(f32x16 x) {
  // Operands in this order: min and max give their second one when a lane is NaN.
  x = min(set1(100.0f), max(set1(-110.0f), x));
  const f32x16 n = round_even(x * set1(1.44269504f));
  // ln(2) in two parts: the first has nine bits, so that n times it is exact without fused operations too.
  const f32x16 r = fnma(n, set1(-2.12194440e-4f), fnma(n, set1(0.693359375f), x));
  f32x16 q = set1(1.381454018e-03f);
  q = fma(q, r, set1(8.368745109e-03f));
  q = fma(q, r, set1(4.166839078e-02f));
  q = fma(q, r, set1(1.666652040e-01f));
  q = fma(q, r, set1(4.999999343e-01f));
  const f32x16 p = fma(r * r, q, r) + set1(1.0f);
  return scale_by_power(p, n);
}

RLX_SIMD f32x16 tanh(f32x16 x) {
  const f32x16 t = abs(x), z = t * t;
  f32x16 q = set1(2.064665234e-03f);
  q = fma(q, z, set1(-8.091968447e-03f));
  q = fma(q, z, set1(2.166634698e-02f));
  q = fma(q, z, set1(-5.394056319e-02f));
  q = fma(q, z, set1(1.333315790e-01f));
  q = fma(q, z, set1(-3.333332961e-01f));
  const f32x16 small = fma(z * t, q, t);
  const f32x16 large = set1(1.0f) - set1(2.0f) / (exp(t + t) + set1(1.0f));
  return copy_sign(select(lt(t, set1(0.625f)), small, large), x);
}

RLX_SIMD f32x16 erf(f32x16 x) {
  const f32x16 t = min(set1(4.0f), abs(x)), z = t * t;
  f32x16 small = set1(7.889123182e-05f);
  small = fma(small, z, set1(-8.020842373e-04f));
  small = fma(small, z, set1(5.189535462e-03f));
  small = fma(small, z, set1(-2.685444466e-02f));
  small = fma(small, z, set1(1.128360018e-01f));
  small = fma(small, z, set1(-3.761262714e-01f));
  small = fma(small, z, set1(1.128379166e+00f)) * t;
  // erfc(t) = 2^-g(t) for t in 0.98 .. 4; above, erf is 1 in f32.
  f32x16 g = set1(3.128736459e-05f);
  g = fma(g, t, set1(-6.367119825e-04f));
  g = fma(g, t, set1(6.065891053e-03f));
  g = fma(g, t, set1(-3.636779991e-02f));
  g = fma(g, t, set1(1.564148985e-01f));
  g = fma(g, t, set1(9.135432443e-01f));
  g = fma(g, t, set1(1.629637168e+00f));
  g = fma(g, t, set1(-2.712792422e-04f));
  const f32x16 large = set1(1.0f) - exp2_of_negative(set1(0.0f) - g);
  return copy_sign(select(lt(t, set1(1.0f)), small, large), x);
}

RLX_SIMD f32x16 silu(f32x16 x) { return x / (set1(1.0f) + exp(set1(0.0f) - x)); }
/// (1 + tanh(u)) / 2 = 1 / (1 + 2^v) with v = -2 log2(e) u, which keeps all digits of negative numbers.
RLX_SIMD f32x16 gelu_tanh(f32x16 x) {
  const f32x16 v = x * fma(set1(-0.102943240f), x * x, set1(-2.30220819f));
  return x / (set1(1.0f) + exp2_in_range(min(set1(120.0f), max(set1(-150.0f), v))));
}
/// relu(x) - t * 2^g(t) with t = |x| and 2^g(t) = erfc(t / sqrt(2)) / 2, t at most 6.2, where the product is 2e-9.
/// Error at most 5e-8 for negative numbers, where 1 + erf(x / sqrt(2)) would keep no digit, in two thirds of the
/// instructions of erf.
RLX_SIMD f32x16 gelu(f32x16 x) {
  const f32x16 t = min(set1(6.2f), abs(x));
  f32x16 g = set1(1.168361951e-07f);
  g = fma(g, t, set1(-2.999367665e-06f));
  g = fma(g, t, set1(2.994446564e-05f));
  g = fma(g, t, set1(-1.181941034e-04f));
  g = fma(g, t, set1(-3.434271419e-04f));
  g = fma(g, t, set1(7.392100544e-03f));
  g = fma(g, t, set1(-5.278054387e-02f));
  g = fma(g, t, set1(-4.590800746e-01f));
  g = fma(g, t, set1(-1.151131516e+00f));
  g = fma(g, t, set1(-9.999982649e-01f));
  return fnma(t, exp2_in_range(g), max(set1(0.0f), x));
}
RLX_SIMD f32x16 relu(f32x16 x) { return max(set1(0.0f), x); }
RLX_SIMD f32x16 softcap(f32x16 x, float cap) { return set1(cap) * tanh(x / set1(cap)); }

template <Act A>
RLX_SIMD f32x16 activate(f32x16 x) {
  if constexpr (A == Act::silu) return silu(x);
  if constexpr (A == Act::gelu_tanh) return gelu_tanh(x);
  if constexpr (A == Act::gelu) return gelu(x);
  if constexpr (A == Act::relu) return relu(x);
  return x;
}

}  // namespace rlx::cpu::RLX_ISA_LEVEL
