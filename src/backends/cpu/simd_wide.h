// The sixteen-lane types on AVX-512 (F, BW, DQ, VL, VNNI): one register each. Included by simd.h
// only.
#pragma once

namespace rlx::cpu::RLX_ISA_LEVEL {

struct f32x16 {
  __m512 v;
};
struct i32x16 {
  __m512i v;
};
struct u8x64 {
  __m512i v;
};  ///< a line of a panel: 16 rows x 4 k
struct short_acc {
  __m512i v;
};  ///< partial sums of a line's dots (int32 on this level)
struct mask16 {
  __mmask16 v;
};
using x4 = __m512i;  ///< four s8 of an activation, in every lane

RLX_SIMD f32x16 set1(float x) { return {_mm512_set1_ps(x)}; }
RLX_SIMD f32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
RLX_SIMD void store(float* p, f32x16 a) { _mm512_storeu_ps(p, a.v); }
RLX_SIMD f32x16 operator+(f32x16 a, f32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
RLX_SIMD f32x16 operator-(f32x16 a, f32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
RLX_SIMD f32x16 operator*(f32x16 a, f32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
RLX_SIMD f32x16 operator/(f32x16 a, f32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
RLX_SIMD f32x16 fma(f32x16 a, f32x16 b, f32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
RLX_SIMD f32x16 fnma(f32x16 a, f32x16 b, f32x16 c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
RLX_SIMD f32x16 min(f32x16 a, f32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
RLX_SIMD f32x16 max(f32x16 a, f32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
RLX_SIMD f32x16 sqrt(f32x16 a) { return {_mm512_sqrt_ps(a.v)}; }
RLX_SIMD f32x16 round_even(f32x16 a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
RLX_SIMD f32x16 floor(f32x16 a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
}
RLX_SIMD i32x16 as_i32(f32x16 a) { return {_mm512_castps_si512(a.v)}; }
RLX_SIMD f32x16 as_f32(i32x16 a) { return {_mm512_castsi512_ps(a.v)}; }
RLX_SIMD i32x16 to_i32(f32x16 a) { return {_mm512_cvtps_epi32(a.v)}; }
RLX_SIMD f32x16 to_f32(i32x16 a) { return {_mm512_cvtepi32_ps(a.v)}; }

RLX_SIMD mask16 lt(f32x16 a, f32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
RLX_SIMD mask16 le(f32x16 a, f32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)}; }
RLX_SIMD mask16 eq(f32x16 a, f32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
RLX_SIMD mask16 is_nan(f32x16 a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
RLX_SIMD mask16 eq(i32x16 a, i32x16 b) { return {_mm512_cmpeq_epi32_mask(a.v, b.v)}; }
RLX_SIMD mask16 gt(i32x16 a, i32x16 b) { return {_mm512_cmpgt_epi32_mask(a.v, b.v)}; }
RLX_SIMD mask16 operator&(mask16 a, mask16 b) { return {static_cast<__mmask16>(a.v & b.v)}; }
RLX_SIMD mask16 operator|(mask16 a, mask16 b) { return {static_cast<__mmask16>(a.v | b.v)}; }
RLX_SIMD f32x16 select(mask16 m, f32x16 a, f32x16 b) {
  return {_mm512_mask_blend_ps(m.v, b.v, a.v)};
}
RLX_SIMD i32x16 select(mask16 m, i32x16 a, i32x16 b) {
  return {_mm512_mask_blend_epi32(m.v, b.v, a.v)};
}
RLX_SIMD unsigned bits(mask16 m) { return m.v; }

RLX_SIMD i32x16 set1_i32(int x) { return {_mm512_set1_epi32(x)}; }
RLX_SIMD i32x16 load_i32(const void* p) { return {_mm512_loadu_si512(p)}; }
RLX_SIMD void store_i32(void* p, i32x16 a) { _mm512_storeu_si512(p, a.v); }
RLX_SIMD i32x16 operator+(i32x16 a, i32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
RLX_SIMD i32x16 operator-(i32x16 a, i32x16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
RLX_SIMD i32x16 operator*(i32x16 a, i32x16 b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
RLX_SIMD i32x16 operator&(i32x16 a, i32x16 b) { return {_mm512_and_si512(a.v, b.v)}; }
RLX_SIMD i32x16 operator|(i32x16 a, i32x16 b) { return {_mm512_or_si512(a.v, b.v)}; }
RLX_SIMD i32x16 operator^(i32x16 a, i32x16 b) { return {_mm512_xor_si512(a.v, b.v)}; }
RLX_SIMD i32x16 min(i32x16 a, i32x16 b) { return {_mm512_min_epi32(a.v, b.v)}; }
RLX_SIMD i32x16 max(i32x16 a, i32x16 b) { return {_mm512_max_epi32(a.v, b.v)}; }
template <int N>
RLX_SIMD i32x16 shl(i32x16 a) {
  return {_mm512_slli_epi32(a.v, N)};
}
template <int N>
RLX_SIMD i32x16 shr(i32x16 a) {
  return {_mm512_srli_epi32(a.v, N)};
}
template <int N>
RLX_SIMD i32x16 sar(i32x16 a) {
  return {_mm512_srai_epi32(a.v, N)};
}
RLX_SIMD i32x16 load_u8(const void* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
}
RLX_SIMD i32x16 load_s8(const void* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
}
RLX_SIMD i32x16 load_u16(const void* p) {
  return {_mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
}

// ---- lines of a panel ----
RLX_SIMD u8x64 load_line(const void* p) { return {_mm512_loadu_si512(p)}; }
RLX_SIMD void store_line(void* p, u8x64 a) { _mm512_storeu_si512(p, a.v); }
RLX_SIMD u8x64 set1_u8(int x) { return {_mm512_set1_epi8(static_cast<char>(x))}; }
RLX_SIMD u8x64 operator&(u8x64 a, u8x64 b) { return {_mm512_and_si512(a.v, b.v)}; }
RLX_SIMD u8x64 operator|(u8x64 a, u8x64 b) { return {_mm512_or_si512(a.v, b.v)}; }
RLX_SIMD u8x64 operator^(u8x64 a, u8x64 b) { return {_mm512_xor_si512(a.v, b.v)}; }
/// Shifts by N bits to the right (left when negative) inside 16-bit units: to be masked afterwards.
template <int N>
RLX_SIMD u8x64 shift(u8x64 a) {
  if constexpr (N >= 0)
    return {_mm512_srli_epi16(a.v, N)};
  else
    return {_mm512_slli_epi16(a.v, -N)};
}
/// (t & mask) | rest
RLX_SIMD u8x64 merge(u8x64 t, u8x64 mask, u8x64 rest) {
  return {_mm512_ternarylogic_epi32(t.v, mask.v, rest.v, 0xea)};
}
/// table[i] for indices below 16.
RLX_SIMD u8x64 lookup(const signed char (&table)[16], u8x64 index) {
  const __m128i t = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(t), index.v)};
}
/// The four values of each row as int32: byte N of each lane.
template <int N>
RLX_SIMD i32x16 unsigned_byte(u8x64 a) {
  if constexpr (N == 3)
    return {_mm512_srli_epi32(a.v, 24)};
  else
    return {_mm512_and_si512(_mm512_srli_epi32(a.v, 8 * N), _mm512_set1_epi32(0xff))};
}
template <int N>
RLX_SIMD i32x16 signed_byte(u8x64 a) {
  return {_mm512_srai_epi32(_mm512_slli_epi32(a.v, 24 - 8 * N), 24)};
}

RLX_SIMD x4 load_x4(const signed char* p) {
  int four;
  __builtin_memcpy(&four, p, 4);
  return _mm512_set1_epi32(four);
}
RLX_SIMD short_acc short_zero() { return {_mm512_setzero_si512()}; }
/// acc += the dots of 4 a row. The int32 sums of this level have no limit on the number of steps.
RLX_SIMD short_acc dot_short(short_acc acc, u8x64 w, x4 x) {
  return {_mm512_dpbusd_epi32(acc.v, w.v, x)};
}
RLX_SIMD i32x16 widen_add(i32x16 acc, short_acc s) { return {_mm512_add_epi32(acc.v, s.v)}; }
inline constexpr bool kShortSums = false;  ///< whether short_acc holds int16
/// acc += the dots of 4 a row, for weights up to 127.
RLX_SIMD i32x16 dot_unsigned(i32x16 acc, u8x64 w, x4 x) {
  return {_mm512_dpbusd_epi32(acc.v, w.v, x)};
}
/// A line of s8 weights made ready for dot_signed: w + 128.
struct SignedLine {
  u8x64 biased;
};
inline constexpr int kSignedOffset = 128;  ///< dot_signed gives w * x + kSignedOffset * x
RLX_SIMD SignedLine signed_line(u8x64 w) { return {w ^ set1_u8(0x80)}; }
RLX_SIMD i32x16 dot_signed(i32x16 acc, const SignedLine& w, x4 x) {
  return {_mm512_dpbusd_epi32(acc.v, w.biased.v, x)};
}

// ---- reductions: lanes i and i+8, then i and i+4, i+2, i+1, on every level ----
RLX_SIMD __m128 quarter_sum(f32x16 a) {
  const __m256 s = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  return _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
}
RLX_SIMD __m128 quarter_max(f32x16 a) {
  const __m256 s = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  return _mm_max_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
}
RLX_SIMD __m128i quarter_sum(i32x16 a) {
  const __m256i s =
      _mm256_add_epi32(_mm512_castsi512_si256(a.v), _mm512_extracti32x8_epi32(a.v, 1));
  return _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
}

// ---- 16-bit floats ----
RLX_SIMD f32x16 load_f16(const std::uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
RLX_SIMD void store_f16(std::uint16_t* p, f32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}
RLX_SIMD void store_low16(std::uint16_t* p, i32x16 a) {  // lanes hold 0..65535
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(a.v));
}
/// Lanes clamped to -128..127 as bytes.
RLX_SIMD void store_s8(signed char* p, i32x16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(a.v));
}

}  // namespace rlx::cpu::RLX_ISA_LEVEL
