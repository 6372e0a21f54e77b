// Sixteen lanes on every instruction-set level, for the units x.simd.cpp: f32x16, i32x16, mask16,
// the lines of weight panels (u8x64: 16 rows x 4 k) and their dot products with int8 activations.
// One zmm register on AVX-512, two ymm on avx2, four xmm on baseline. Everything lives in the
// namespace of the level, since an inline function that two levels share could be linked from the
// wrong one (architecture.md, section 1): include only headers that emit no code.
//
// Results are equal on all levels, but for fma() and fnma(), which round twice on baseline. min(a,
// b) and max(a, b) give b when an operand is NaN.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#if defined(RLX_ISA_avx512) || defined(RLX_ISA_avx512_bf16)
#define RLX_WIDE 1
#endif
#define RLX_SIMD [[gnu::always_inline]] inline

namespace rlx::cpu::RLX_ISA_LEVEL {
struct f32x16;
struct i32x16;
RLX_SIMD f32x16 f16_bits_to_f32(i32x16 h);
RLX_SIMD i32x16 f32_to_f16_bits(f32x16 a);
}  // namespace rlx::cpu::RLX_ISA_LEVEL

#if defined(RLX_WIDE)
#include "backends/cpu/simd_wide.h"
#else
#include "backends/cpu/simd_narrow.h"
#endif

namespace rlx::cpu::RLX_ISA_LEVEL {

inline constexpr int kLanes = 16;

RLX_SIMD f32x16 zero_f32() { return set1(0.0f); }
RLX_SIMD i32x16 zero_i32() { return set1_i32(0); }
RLX_SIMD f32x16 abs(f32x16 a) { return as_f32(as_i32(a) & set1_i32(0x7fffffff)); }
RLX_SIMD f32x16 operator-(f32x16 a) { return as_f32(as_i32(a) ^ set1_i32(INT32_MIN)); }
RLX_SIMD f32x16 copy_sign(f32x16 magnitude, f32x16 sign) {
  return as_f32(as_i32(abs(magnitude)) | (as_i32(sign) & set1_i32(INT32_MIN)));
}
RLX_SIMD bool any(mask16 m) { return bits(m) != 0; }
/// max(a, b) where a NaN of either operand stays (max() itself hides one).
RLX_SIMD f32x16 max_nan(f32x16 a, f32x16 b) { return select(is_nan(a), a, max(a, b)); }
RLX_SIMD mask16 first_lanes(int n) {
  alignas(64) static constexpr int kIndex[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                 8, 9, 10, 11, 12, 13, 14, 15};
  return gt(set1_i32(n), load_i32(kIndex));
}

/// The first n (0..16) values; the other lanes are 0. No byte beyond them is touched.
RLX_SIMD f32x16 load_partial(const float* p, int n) {
#if defined(RLX_WIDE)
  return {_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p)};
#else
  alignas(64) float t[16] = {};
  for (int i = 0; i < n; ++i) t[i] = p[i];
  return load(t);
#endif
}
RLX_SIMD void store_partial(float* p, f32x16 a, int n) {
#if defined(RLX_WIDE)
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), a.v);
#else
  alignas(64) float t[16];
  store(t, a);
  for (int i = 0; i < n; ++i) p[i] = t[i];
#endif
}

/// Lane sums and maxima in one fixed order: lanes i and i+8, then i and i+4, i+2, i+1.
RLX_SIMD float sum(f32x16 a) {
  const __m128 q = quarter_sum(a);
  const __m128 h = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(h, _mm_shuffle_ps(h, h, 1)));
}
/// NaN lanes may be lost: reduce with max_nan first, or test is_nan, where that matters.
RLX_SIMD float max_lane(f32x16 a) {
  const __m128 q = quarter_max(a);
  const __m128 h = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(h, _mm_shuffle_ps(h, h, 1)));
}
RLX_SIMD int sum(i32x16 a) {
  const __m128i q = quarter_sum(a);
  const __m128i h = _mm_add_epi32(q, _mm_unpackhi_epi64(q, q));
  return _mm_cvtsi128_si32(_mm_add_epi32(h, _mm_shuffle_epi32(h, 1)));
}

// ---- 16-bit floats: round to nearest even, NaN stays NaN ----
/// Lanes hold the 16 bits of a half. Exact, subnormal halves included, whatever the MXCSR flush
/// modes (integer arithmetic for the normal ones, a power-of-two product for the subnormal).
RLX_SIMD f32x16 f16_bits_to_f32(i32x16 h) {
  const i32x16 magnitude = h & set1_i32(0x7fff);
  const i32x16 sign = shl<16>(h ^ magnitude);
  const i32x16 normal = shl<13>(magnitude) + set1_i32((127 - 15) << 23);
  const i32x16 special = normal + set1_i32((127 - 16 + 1) << 23);  // exponent 31 becomes 255
  const f32x16 small = to_f32(magnitude) * set1(0x1p-24f);
  i32x16 r = select(gt(magnitude, set1_i32(0x7bff)), special, normal);
  r = select(gt(set1_i32(0x400), magnitude), as_i32(small), r);
  return as_f32(r | sign);
}
RLX_SIMD i32x16 f32_to_f16_bits(f32x16 a) {
  const i32x16 u = as_i32(a);
  const i32x16 sign = shr<16>(u & set1_i32(INT32_MIN));
  const i32x16 m = u & set1_i32(0x7fffffff);
  const i32x16 odd = shr<13>(m) & set1_i32(1);
  const i32x16 normal = shr<13>(m + odd + set1_i32(0xfff - ((127 - 15) << 23)));
  // Adding 0.5 leaves the subnormal half's bits at the end of the mantissa, rounded to nearest
  // even.
  const i32x16 small = as_i32(as_f32(m) + set1(0.5f)) - set1_i32(0x3f000000);
  i32x16 r = select(gt(set1_i32((127 - 14) << 23), m), small, normal);
  r = select(gt(m, set1_i32(0x477fefff)), set1_i32(0x7c00), r);  // rounds to 2^16 or more
  const i32x16 nan = (shr<13>(m) & set1_i32(0x3ff)) | set1_i32(0x7e00);
  r = select(gt(m, set1_i32(0x7f800000)), nan, r);
  return r | sign;
}
RLX_SIMD f32x16 load_bf16(const std::uint16_t* p) { return as_f32(shl<16>(load_u16(p))); }
RLX_SIMD i32x16 f32_to_bf16_bits(f32x16 a) {
  const i32x16 u = as_i32(a);
  const i32x16 rounded = shr<16>(u + set1_i32(0x7fff) + (shr<16>(u) & set1_i32(1)));
  return select(is_nan(a), shr<16>(u) | set1_i32(0x40), rounded);
}
RLX_SIMD void store_bf16(std::uint16_t* p, f32x16 a) { store_low16(p, f32_to_bf16_bits(a)); }

/// The first n (0..16) values of 16 bits; the other lanes are 0.
RLX_SIMD void copy_partial(std::uint16_t* to, const std::uint16_t* from, int n) {
  for (int i = 0; i < n; ++i) to[i] = from[i];
}
RLX_SIMD f32x16 load_f16_partial(const std::uint16_t* p, int n) {
  alignas(32) std::uint16_t t[16] = {};
  copy_partial(t, p, n);
  return load_f16(t);
}
RLX_SIMD f32x16 load_bf16_partial(const std::uint16_t* p, int n) {
  alignas(32) std::uint16_t t[16] = {};
  copy_partial(t, p, n);
  return load_bf16(t);
}
RLX_SIMD void store_f16_partial(std::uint16_t* p, f32x16 a, int n) {
  alignas(32) std::uint16_t t[16];
  store_f16(t, a);
  copy_partial(p, t, n);
}
RLX_SIMD void store_bf16_partial(std::uint16_t* p, f32x16 a, int n) {
  alignas(32) std::uint16_t t[16];
  store_bf16(t, a);
  copy_partial(p, t, n);
}

}  // namespace rlx::cpu::RLX_ISA_LEVEL
