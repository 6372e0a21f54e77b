// The native vectors of the levels without AVX-512: 8 lanes (avx2) or 4 lanes (baseline), under one
// set of names, and the sixteen-lane types made of them. Included by simd.h only.
#pragma once

namespace rlx::cpu::RLX_ISA_LEVEL {

#if defined(RLX_ISA_avx2)
using nf = __m256;
using ni = __m256i;
inline constexpr int kParts = 2;
RLX_SIMD nf nf_set1(float x) { return _mm256_set1_ps(x); }
RLX_SIMD nf nf_load(const float* p) { return _mm256_loadu_ps(p); }
RLX_SIMD void nf_store(float* p, nf a) { _mm256_storeu_ps(p, a); }
RLX_SIMD nf nf_add(nf a, nf b) { return _mm256_add_ps(a, b); }
RLX_SIMD nf nf_sub(nf a, nf b) { return _mm256_sub_ps(a, b); }
RLX_SIMD nf nf_mul(nf a, nf b) { return _mm256_mul_ps(a, b); }
RLX_SIMD nf nf_div(nf a, nf b) { return _mm256_div_ps(a, b); }
RLX_SIMD nf nf_fma(nf a, nf b, nf c) { return _mm256_fmadd_ps(a, b, c); }
RLX_SIMD nf nf_fnma(nf a, nf b, nf c) { return _mm256_fnmadd_ps(a, b, c); }
RLX_SIMD nf nf_min(nf a, nf b) { return _mm256_min_ps(a, b); }
RLX_SIMD nf nf_max(nf a, nf b) { return _mm256_max_ps(a, b); }
RLX_SIMD nf nf_sqrt(nf a) { return _mm256_sqrt_ps(a); }
RLX_SIMD nf nf_and(nf a, nf b) { return _mm256_and_ps(a, b); }
RLX_SIMD nf nf_or(nf a, nf b) { return _mm256_or_ps(a, b); }
RLX_SIMD nf nf_xor(nf a, nf b) { return _mm256_xor_ps(a, b); }
RLX_SIMD nf nf_round(nf a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
RLX_SIMD nf nf_floor(nf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
RLX_SIMD nf nf_lt(nf a, nf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
RLX_SIMD nf nf_le(nf a, nf b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
RLX_SIMD nf nf_eq(nf a, nf b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
RLX_SIMD nf nf_unordered(nf a, nf b) { return _mm256_cmp_ps(a, b, _CMP_UNORD_Q); }
RLX_SIMD nf nf_blend(nf mask, nf a, nf b) { return _mm256_blendv_ps(b, a, mask); }
RLX_SIMD int nf_bits(nf mask) { return _mm256_movemask_ps(mask); }
RLX_SIMD ni ni_of(nf a) { return _mm256_castps_si256(a); }
RLX_SIMD nf nf_of(ni a) { return _mm256_castsi256_ps(a); }
RLX_SIMD ni ni_round(nf a) { return _mm256_cvtps_epi32(a); }
RLX_SIMD nf nf_from(ni a) { return _mm256_cvtepi32_ps(a); }
RLX_SIMD ni ni_set1(int x) { return _mm256_set1_epi32(x); }
RLX_SIMD ni ni_set1_u8(int x) { return _mm256_set1_epi8(static_cast<char>(x)); }
RLX_SIMD ni ni_set1_i16(int x) { return _mm256_set1_epi16(static_cast<short>(x)); }
RLX_SIMD ni ni_zero() { return _mm256_setzero_si256(); }
RLX_SIMD ni ni_load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
RLX_SIMD void ni_store(void* p, ni a) { _mm256_storeu_si256(static_cast<__m256i*>(p), a); }
RLX_SIMD ni ni_add(ni a, ni b) { return _mm256_add_epi32(a, b); }
RLX_SIMD ni ni_sub(ni a, ni b) { return _mm256_sub_epi32(a, b); }
RLX_SIMD ni ni_mul(ni a, ni b) { return _mm256_mullo_epi32(a, b); }
RLX_SIMD ni ni_min(ni a, ni b) { return _mm256_min_epi32(a, b); }
RLX_SIMD ni ni_max(ni a, ni b) { return _mm256_max_epi32(a, b); }
RLX_SIMD ni ni_and(ni a, ni b) { return _mm256_and_si256(a, b); }
RLX_SIMD ni ni_or(ni a, ni b) { return _mm256_or_si256(a, b); }
RLX_SIMD ni ni_xor(ni a, ni b) { return _mm256_xor_si256(a, b); }
RLX_SIMD ni ni_eq(ni a, ni b) { return _mm256_cmpeq_epi32(a, b); }
RLX_SIMD ni ni_gt(ni a, ni b) { return _mm256_cmpgt_epi32(a, b); }
RLX_SIMD ni ni_shl(ni a, int n) { return _mm256_slli_epi32(a, n); }
RLX_SIMD ni ni_shr(ni a, int n) { return _mm256_srli_epi32(a, n); }
RLX_SIMD ni ni_sar(ni a, int n) { return _mm256_srai_epi32(a, n); }
RLX_SIMD ni ni_shl16(ni a, int n) { return _mm256_slli_epi16(a, n); }
RLX_SIMD ni ni_shr16(ni a, int n) { return _mm256_srli_epi16(a, n); }
RLX_SIMD ni ni_add16(ni a, ni b) { return _mm256_add_epi16(a, b); }
RLX_SIMD ni ni_madd(ni a, ni b) { return _mm256_madd_epi16(a, b); }
RLX_SIMD ni ni_maddubs(ni u, ni s) { return _mm256_maddubs_epi16(u, s); }
RLX_SIMD ni ni_abs8(ni a) { return _mm256_abs_epi8(a); }
RLX_SIMD ni ni_sign8(ni a, ni s) { return _mm256_sign_epi8(a, s); }
RLX_SIMD ni ni_lookup(__m128i table, ni i) {
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), i);
}
RLX_SIMD ni ni_from_u8(const void* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
}
RLX_SIMD ni ni_from_s8(const void* p) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
}
RLX_SIMD ni ni_from_u16(const void* p) {
  return _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
#else
using nf = __m128;
using ni = __m128i;
inline constexpr int kParts = 4;
RLX_SIMD nf nf_set1(float x) { return _mm_set1_ps(x); }
RLX_SIMD nf nf_load(const float* p) { return _mm_loadu_ps(p); }
RLX_SIMD void nf_store(float* p, nf a) { _mm_storeu_ps(p, a); }
RLX_SIMD nf nf_add(nf a, nf b) { return _mm_add_ps(a, b); }
RLX_SIMD nf nf_sub(nf a, nf b) { return _mm_sub_ps(a, b); }
RLX_SIMD nf nf_mul(nf a, nf b) { return _mm_mul_ps(a, b); }
RLX_SIMD nf nf_div(nf a, nf b) { return _mm_div_ps(a, b); }
RLX_SIMD nf nf_fma(nf a, nf b, nf c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }
RLX_SIMD nf nf_fnma(nf a, nf b, nf c) { return _mm_sub_ps(c, _mm_mul_ps(a, b)); }
RLX_SIMD nf nf_min(nf a, nf b) { return _mm_min_ps(a, b); }
RLX_SIMD nf nf_max(nf a, nf b) { return _mm_max_ps(a, b); }
RLX_SIMD nf nf_sqrt(nf a) { return _mm_sqrt_ps(a); }
RLX_SIMD nf nf_and(nf a, nf b) { return _mm_and_ps(a, b); }
RLX_SIMD nf nf_or(nf a, nf b) { return _mm_or_ps(a, b); }
RLX_SIMD nf nf_xor(nf a, nf b) { return _mm_xor_ps(a, b); }
RLX_SIMD nf nf_round(nf a) {
  return _mm_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
RLX_SIMD nf nf_floor(nf a) { return _mm_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
RLX_SIMD nf nf_lt(nf a, nf b) { return _mm_cmplt_ps(a, b); }
RLX_SIMD nf nf_le(nf a, nf b) { return _mm_cmple_ps(a, b); }
RLX_SIMD nf nf_eq(nf a, nf b) { return _mm_cmpeq_ps(a, b); }
RLX_SIMD nf nf_unordered(nf a, nf b) { return _mm_cmpunord_ps(a, b); }
RLX_SIMD nf nf_blend(nf mask, nf a, nf b) { return _mm_blendv_ps(b, a, mask); }
RLX_SIMD int nf_bits(nf mask) { return _mm_movemask_ps(mask); }
RLX_SIMD ni ni_of(nf a) { return _mm_castps_si128(a); }
RLX_SIMD nf nf_of(ni a) { return _mm_castsi128_ps(a); }
RLX_SIMD ni ni_round(nf a) { return _mm_cvtps_epi32(a); }
RLX_SIMD nf nf_from(ni a) { return _mm_cvtepi32_ps(a); }
RLX_SIMD ni ni_set1(int x) { return _mm_set1_epi32(x); }
RLX_SIMD ni ni_set1_u8(int x) { return _mm_set1_epi8(static_cast<char>(x)); }
RLX_SIMD ni ni_set1_i16(int x) { return _mm_set1_epi16(static_cast<short>(x)); }
RLX_SIMD ni ni_zero() { return _mm_setzero_si128(); }
RLX_SIMD ni ni_load(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
RLX_SIMD void ni_store(void* p, ni a) { _mm_storeu_si128(static_cast<__m128i*>(p), a); }
RLX_SIMD ni ni_add(ni a, ni b) { return _mm_add_epi32(a, b); }
RLX_SIMD ni ni_sub(ni a, ni b) { return _mm_sub_epi32(a, b); }
RLX_SIMD ni ni_mul(ni a, ni b) { return _mm_mullo_epi32(a, b); }
RLX_SIMD ni ni_min(ni a, ni b) { return _mm_min_epi32(a, b); }
RLX_SIMD ni ni_max(ni a, ni b) { return _mm_max_epi32(a, b); }
RLX_SIMD ni ni_and(ni a, ni b) { return _mm_and_si128(a, b); }
RLX_SIMD ni ni_or(ni a, ni b) { return _mm_or_si128(a, b); }
RLX_SIMD ni ni_xor(ni a, ni b) { return _mm_xor_si128(a, b); }
RLX_SIMD ni ni_eq(ni a, ni b) { return _mm_cmpeq_epi32(a, b); }
RLX_SIMD ni ni_gt(ni a, ni b) { return _mm_cmpgt_epi32(a, b); }
RLX_SIMD ni ni_shl(ni a, int n) { return _mm_slli_epi32(a, n); }
RLX_SIMD ni ni_shr(ni a, int n) { return _mm_srli_epi32(a, n); }
RLX_SIMD ni ni_sar(ni a, int n) { return _mm_srai_epi32(a, n); }
RLX_SIMD ni ni_shl16(ni a, int n) { return _mm_slli_epi16(a, n); }
RLX_SIMD ni ni_shr16(ni a, int n) { return _mm_srli_epi16(a, n); }
RLX_SIMD ni ni_add16(ni a, ni b) { return _mm_add_epi16(a, b); }
RLX_SIMD ni ni_madd(ni a, ni b) { return _mm_madd_epi16(a, b); }
RLX_SIMD ni ni_maddubs(ni u, ni s) { return _mm_maddubs_epi16(u, s); }
RLX_SIMD ni ni_abs8(ni a) { return _mm_abs_epi8(a); }
RLX_SIMD ni ni_sign8(ni a, ni s) { return _mm_sign_epi8(a, s); }
RLX_SIMD ni ni_lookup(__m128i table, ni i) { return _mm_shuffle_epi8(table, i); }
RLX_SIMD ni ni_from_u8(const void* p) { return _mm_cvtepu8_epi32(_mm_loadu_si32(p)); }
RLX_SIMD ni ni_from_s8(const void* p) { return _mm_cvtepi8_epi32(_mm_loadu_si32(p)); }
RLX_SIMD ni ni_from_u16(const void* p) {
  return _mm_cvtepu16_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
}
#endif

inline constexpr int kPartLanes = 16 / kParts;

struct f32x16 {
  nf v[kParts];
};
struct i32x16 {
  ni v[kParts];
};
struct u8x64 {
  ni v[kParts];
};  ///< a line of a panel: 16 rows x 4 k
struct short_acc {
  ni v[kParts];
};  ///< int16 partial sums of a line's dots: two per row
struct mask16 {
  nf v[kParts];
};              ///< all bits of a lane set: true
using x4 = ni;  ///< four s8 of an activation, in every lane

template <int I>
struct Part {
  constexpr operator int() const { return I; }
};
template <typename V, typename F>
RLX_SIMD V each(F f) {
  if constexpr (kParts == 2) {
    return V{{f(Part<0>{}), f(Part<1>{})}};
  } else {
    return V{{f(Part<0>{}), f(Part<1>{}), f(Part<kParts - 2>{}), f(Part<kParts - 1>{})}};
  }
}
#define RLX_EACH(V, expr) each<V>([&](auto i) __attribute__((always_inline)) { return expr; })

RLX_SIMD f32x16 set1(float x) {
  const nf s = nf_set1(x);
  return RLX_EACH(f32x16, (void(i), s));
}
RLX_SIMD f32x16 load(const float* p) { return RLX_EACH(f32x16, nf_load(p + i * kPartLanes)); }
RLX_SIMD void store(float* p, f32x16 a) {
  for (int i = 0; i < kParts; ++i) nf_store(p + i * kPartLanes, a.v[i]);
}
RLX_SIMD f32x16 operator+(f32x16 a, f32x16 b) { return RLX_EACH(f32x16, nf_add(a.v[i], b.v[i])); }
RLX_SIMD f32x16 operator-(f32x16 a, f32x16 b) { return RLX_EACH(f32x16, nf_sub(a.v[i], b.v[i])); }
RLX_SIMD f32x16 operator*(f32x16 a, f32x16 b) { return RLX_EACH(f32x16, nf_mul(a.v[i], b.v[i])); }
RLX_SIMD f32x16 operator/(f32x16 a, f32x16 b) { return RLX_EACH(f32x16, nf_div(a.v[i], b.v[i])); }
RLX_SIMD f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
  return RLX_EACH(f32x16, nf_fma(a.v[i], b.v[i], c.v[i]));
}
RLX_SIMD f32x16 fnma(f32x16 a, f32x16 b, f32x16 c) {
  return RLX_EACH(f32x16, nf_fnma(a.v[i], b.v[i], c.v[i]));
}
RLX_SIMD f32x16 min(f32x16 a, f32x16 b) { return RLX_EACH(f32x16, nf_min(a.v[i], b.v[i])); }
RLX_SIMD f32x16 max(f32x16 a, f32x16 b) { return RLX_EACH(f32x16, nf_max(a.v[i], b.v[i])); }
RLX_SIMD f32x16 sqrt(f32x16 a) { return RLX_EACH(f32x16, nf_sqrt(a.v[i])); }
RLX_SIMD f32x16 round_even(f32x16 a) { return RLX_EACH(f32x16, nf_round(a.v[i])); }
RLX_SIMD f32x16 floor(f32x16 a) { return RLX_EACH(f32x16, nf_floor(a.v[i])); }
RLX_SIMD i32x16 as_i32(f32x16 a) { return RLX_EACH(i32x16, ni_of(a.v[i])); }
RLX_SIMD f32x16 as_f32(i32x16 a) { return RLX_EACH(f32x16, nf_of(a.v[i])); }
RLX_SIMD i32x16 to_i32(f32x16 a) { return RLX_EACH(i32x16, ni_round(a.v[i])); }
RLX_SIMD f32x16 to_f32(i32x16 a) { return RLX_EACH(f32x16, nf_from(a.v[i])); }

RLX_SIMD mask16 lt(f32x16 a, f32x16 b) { return RLX_EACH(mask16, nf_lt(a.v[i], b.v[i])); }
RLX_SIMD mask16 le(f32x16 a, f32x16 b) { return RLX_EACH(mask16, nf_le(a.v[i], b.v[i])); }
RLX_SIMD mask16 eq(f32x16 a, f32x16 b) { return RLX_EACH(mask16, nf_eq(a.v[i], b.v[i])); }
RLX_SIMD mask16 is_nan(f32x16 a) { return RLX_EACH(mask16, nf_unordered(a.v[i], a.v[i])); }
RLX_SIMD mask16 eq(i32x16 a, i32x16 b) { return RLX_EACH(mask16, nf_of(ni_eq(a.v[i], b.v[i]))); }
RLX_SIMD mask16 gt(i32x16 a, i32x16 b) { return RLX_EACH(mask16, nf_of(ni_gt(a.v[i], b.v[i]))); }
RLX_SIMD mask16 operator&(mask16 a, mask16 b) { return RLX_EACH(mask16, nf_and(a.v[i], b.v[i])); }
RLX_SIMD mask16 operator|(mask16 a, mask16 b) { return RLX_EACH(mask16, nf_or(a.v[i], b.v[i])); }
RLX_SIMD f32x16 select(mask16 m, f32x16 a, f32x16 b) {
  return RLX_EACH(f32x16, nf_blend(m.v[i], a.v[i], b.v[i]));
}
RLX_SIMD i32x16 select(mask16 m, i32x16 a, i32x16 b) {
  return RLX_EACH(i32x16, ni_of(nf_blend(m.v[i], nf_of(a.v[i]), nf_of(b.v[i]))));
}
RLX_SIMD unsigned bits(mask16 m) {
  unsigned all = 0;
  for (int i = 0; i < kParts; ++i)
    all |= static_cast<unsigned>(nf_bits(m.v[i])) << (i * kPartLanes);
  return all;
}

RLX_SIMD i32x16 set1_i32(int x) {
  const ni s = ni_set1(x);
  return RLX_EACH(i32x16, (void(i), s));
}
RLX_SIMD i32x16 load_i32(const void* p) {
  const auto* b = static_cast<const unsigned char*>(p);
  return RLX_EACH(i32x16, ni_load(b + i * kPartLanes * 4));
}
RLX_SIMD void store_i32(void* p, i32x16 a) {
  for (int i = 0; i < kParts; ++i)
    ni_store(static_cast<unsigned char*>(p) + i * kPartLanes * 4, a.v[i]);
}
RLX_SIMD i32x16 operator+(i32x16 a, i32x16 b) { return RLX_EACH(i32x16, ni_add(a.v[i], b.v[i])); }
RLX_SIMD i32x16 operator-(i32x16 a, i32x16 b) { return RLX_EACH(i32x16, ni_sub(a.v[i], b.v[i])); }
RLX_SIMD i32x16 operator*(i32x16 a, i32x16 b) { return RLX_EACH(i32x16, ni_mul(a.v[i], b.v[i])); }
RLX_SIMD i32x16 operator&(i32x16 a, i32x16 b) { return RLX_EACH(i32x16, ni_and(a.v[i], b.v[i])); }
RLX_SIMD i32x16 operator|(i32x16 a, i32x16 b) { return RLX_EACH(i32x16, ni_or(a.v[i], b.v[i])); }
RLX_SIMD i32x16 operator^(i32x16 a, i32x16 b) { return RLX_EACH(i32x16, ni_xor(a.v[i], b.v[i])); }
RLX_SIMD i32x16 min(i32x16 a, i32x16 b) { return RLX_EACH(i32x16, ni_min(a.v[i], b.v[i])); }
RLX_SIMD i32x16 max(i32x16 a, i32x16 b) { return RLX_EACH(i32x16, ni_max(a.v[i], b.v[i])); }
template <int N>
RLX_SIMD i32x16 shl(i32x16 a) {
  return RLX_EACH(i32x16, ni_shl(a.v[i], N));
}
template <int N>
RLX_SIMD i32x16 shr(i32x16 a) {
  return RLX_EACH(i32x16, ni_shr(a.v[i], N));
}
template <int N>
RLX_SIMD i32x16 sar(i32x16 a) {
  return RLX_EACH(i32x16, ni_sar(a.v[i], N));
}
RLX_SIMD i32x16 load_u8(const void* p) {
  const auto* b = static_cast<const unsigned char*>(p);
  return RLX_EACH(i32x16, ni_from_u8(b + i * kPartLanes));
}
RLX_SIMD i32x16 load_s8(const void* p) {
  const auto* b = static_cast<const unsigned char*>(p);
  return RLX_EACH(i32x16, ni_from_s8(b + i * kPartLanes));
}
RLX_SIMD i32x16 load_u16(const void* p) {
  const auto* b = static_cast<const unsigned char*>(p);
  return RLX_EACH(i32x16, ni_from_u16(b + i * kPartLanes * 2));
}

// ---- lines of a panel ----
RLX_SIMD u8x64 load_line(const void* p) {
  const auto* b = static_cast<const unsigned char*>(p);
  return RLX_EACH(u8x64, ni_load(b + i * kPartLanes * 4));
}
RLX_SIMD void store_line(void* p, u8x64 a) {
  for (int i = 0; i < kParts; ++i)
    ni_store(static_cast<unsigned char*>(p) + i * kPartLanes * 4, a.v[i]);
}
RLX_SIMD u8x64 set1_u8(int x) {
  const ni s = ni_set1_u8(x);
  return RLX_EACH(u8x64, (void(i), s));
}
RLX_SIMD u8x64 operator&(u8x64 a, u8x64 b) { return RLX_EACH(u8x64, ni_and(a.v[i], b.v[i])); }
RLX_SIMD u8x64 operator|(u8x64 a, u8x64 b) { return RLX_EACH(u8x64, ni_or(a.v[i], b.v[i])); }
RLX_SIMD u8x64 operator^(u8x64 a, u8x64 b) { return RLX_EACH(u8x64, ni_xor(a.v[i], b.v[i])); }
/// Shifts by N bits to the right (left when negative) inside 16-bit units: to be masked afterwards.
template <int N>
RLX_SIMD u8x64 shift(u8x64 a) {
  if constexpr (N >= 0)
    return RLX_EACH(u8x64, ni_shr16(a.v[i], N));
  else
    return RLX_EACH(u8x64, ni_shl16(a.v[i], -N));
}
/// (t & mask) | rest
RLX_SIMD u8x64 merge(u8x64 t, u8x64 mask, u8x64 rest) { return (t & mask) | rest; }
/// table[i] for indices below 16.
RLX_SIMD u8x64 lookup(const signed char (&table)[16], u8x64 index) {
  const __m128i t = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return RLX_EACH(u8x64, ni_lookup(t, index.v[i]));
}
/// The four values of each row as int32: byte N of each lane.
template <int N>
RLX_SIMD i32x16 unsigned_byte(u8x64 a) {
  const ni low = ni_set1(0xff);
  return RLX_EACH(i32x16, N == 3 ? ni_shr(a.v[i], 24) : ni_and(ni_shr(a.v[i], 8 * N), low));
}
template <int N>
RLX_SIMD i32x16 signed_byte(u8x64 a) {
  return RLX_EACH(i32x16, ni_sar(ni_shl(a.v[i], 24 - 8 * N), 24));
}

RLX_SIMD x4 load_x4(const signed char* p) {
  int four;
  __builtin_memcpy(&four, p, 4);
  return ni_set1(four);
}
RLX_SIMD short_acc short_zero() {
  const ni z = ni_zero();
  return RLX_EACH(short_acc, (void(i), z));
}
/// Keeps a chain of integer sums as it is written: g++ otherwise moves all additions behind all
/// products, which then do not fit the registers (twice the instructions in the tiles).
RLX_SIMD ni in_order(ni a) {
  asm("" : "+x"(a));
  return a;
}
/// acc += two dots of 2 a row. Exact while |acc| stays below 32768: 8 steps for weights up to 15, 4
/// for 31, 2 for 63, 1 for 127.
RLX_SIMD short_acc dot_short(short_acc acc, u8x64 w, x4 x) {
  return RLX_EACH(short_acc, in_order(ni_add16(acc.v[i], ni_maddubs(w.v[i], x))));
}
/// acc + the sums of the int16 pairs.
RLX_SIMD i32x16 widen_add(i32x16 acc, short_acc s) {
  const ni one = ni_set1_i16(1);
  return RLX_EACH(i32x16, ni_add(acc.v[i], ni_madd(s.v[i], one)));
}
inline constexpr bool kShortSums = true;  ///< whether short_acc holds int16
/// acc += the dots of 4 a row, for weights up to 127.
RLX_SIMD i32x16 dot_unsigned(i32x16 acc, u8x64 w, x4 x) {
  return widen_add(acc, dot_short(short_zero(), w, x));
}
/// A line of s8 weights made ready for dot_signed: the weights and their magnitudes.
struct SignedLine {
  u8x64 w, magnitude;
};
inline constexpr int kSignedOffset = 0;  ///< dot_signed gives w * x + kSignedOffset * x
RLX_SIMD SignedLine signed_line(u8x64 w) { return {w, RLX_EACH(u8x64, ni_abs8(w.v[i]))}; }
/// acc += w * x for s8 weights: |w| <= 128 and |x| <= 127, so a pair of products stays below 32768.
RLX_SIMD i32x16 dot_signed(i32x16 acc, const SignedLine& w, x4 x) {
  const ni one = ni_set1_i16(1);
  return RLX_EACH(
      i32x16, in_order(ni_add(acc.v[i],
                              ni_madd(ni_maddubs(w.magnitude.v[i], ni_sign8(x, w.w.v[i])), one))));
}

// ---- reductions: lanes i and i+8, then i and i+4, i+2, i+1, on every level ----
RLX_SIMD __m128 quarter_sum(f32x16 a) {
#if defined(RLX_ISA_avx2)
  const __m256 s = _mm256_add_ps(a.v[0], a.v[1]);
  return _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
#else
  return _mm_add_ps(_mm_add_ps(a.v[0], a.v[kParts - 2]), _mm_add_ps(a.v[1], a.v[kParts - 1]));
#endif
}
RLX_SIMD __m128 quarter_max(f32x16 a) {
#if defined(RLX_ISA_avx2)
  const __m256 s = _mm256_max_ps(a.v[0], a.v[1]);
  return _mm_max_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
#else
  return _mm_max_ps(_mm_max_ps(a.v[0], a.v[kParts - 2]), _mm_max_ps(a.v[1], a.v[kParts - 1]));
#endif
}
RLX_SIMD __m128i quarter_sum(i32x16 a) {
#if defined(RLX_ISA_avx2)
  const __m256i s = _mm256_add_epi32(a.v[0], a.v[1]);
  return _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
#else
  return _mm_add_epi32(_mm_add_epi32(a.v[0], a.v[kParts - 2]),
                       _mm_add_epi32(a.v[1], a.v[kParts - 1]));
#endif
}

// ---- 16-bit floats ----
RLX_SIMD f32x16 load_f16(const std::uint16_t* p) {
#if defined(RLX_ISA_avx2)
  return RLX_EACH(f32x16,
                  _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i * 8))));
#else
  return f16_bits_to_f32(load_u16(p));
#endif
}
RLX_SIMD void store_low16(std::uint16_t* p, i32x16 a) {  // lanes hold 0..65535
#if defined(RLX_ISA_avx2)
  const __m256i packed = _mm256_packus_epi32(a.v[0], a.v[1]);
  ni_store(p, _mm256_permute4x64_epi64(packed, 0xd8));
#else
  ni_store(p, _mm_packus_epi32(a.v[0], a.v[1]));
  ni_store(p + 8, _mm_packus_epi32(a.v[kParts - 2], a.v[kParts - 1]));
#endif
}
RLX_SIMD void store_f16(std::uint16_t* p, f32x16 a) {
#if defined(RLX_ISA_avx2)
  for (int i = 0; i < 2; ++i)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + i * 8),
                     _mm256_cvtps_ph(a.v[i], _MM_FROUND_TO_NEAREST_INT));
#else
  store_low16(p, f32_to_f16_bits(a));
#endif
}
/// Lanes clamped to -128..127 as bytes.
RLX_SIMD void store_s8(signed char* p, i32x16 a) {
#if defined(RLX_ISA_avx2)
  const __m256i w = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.v[0], a.v[1]), 0xd8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
#else
  ni_store(p, _mm_packs_epi16(_mm_packs_epi32(a.v[0], a.v[1]),
                              _mm_packs_epi32(a.v[kParts - 2], a.v[kParts - 1])));
#endif
}

}  // namespace rlx::cpu::RLX_ISA_LEVEL
