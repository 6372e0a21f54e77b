// Loops that do nothing but read, or nothing but multiply, as wide as the level allows. The highest
// level adds nothing over avx512 here. Vectors of the compiler's own kind: the same text for every
// width.
#include "runtime/probe_loops.h"

#if !defined(RLX_ISA_avx512_bf16)

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rlx::probe_loops::RLX_ISA_LEVEL {
namespace {

#if defined(__AVX512F__)
constexpr std::size_t kBytes = 64;
#elif defined(__AVX2__)
constexpr std::size_t kBytes = 32;
#else
constexpr std::size_t kBytes = 16;
#endif

using Vector = std::uint64_t __attribute__((vector_size(kBytes), may_alias));

constexpr int kChains = 10;  // enough products in flight for two units of five cycles

}  // namespace

// Four streams: one alone does not keep enough cache lines on their way.
std::uint64_t read(const std::byte* data, std::size_t bytes) noexcept {
  const std::size_t part = bytes / 4 / (4 * kBytes) * (4 * kBytes);
  Vector sum[4] = {};
  for (std::size_t at = 0; at < part; at += kBytes)
    for (std::size_t s = 0; s < 4; ++s)
      sum[s] ^= *reinterpret_cast<const Vector*>(data + s * part + at);
  const Vector all = sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < kBytes / 8; ++i) out ^= all[i];
  return out;
}

const std::int64_t operations_per_round = kChains * static_cast<std::int64_t>(kBytes) * 2;

std::int64_t multiply(std::int64_t rounds) noexcept {
#if defined(__AVX512VNNI__)
  __m512i acc[kChains];
  for (__m512i& a : acc) a = _mm512_setzero_si512();
  const __m512i x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(-2);
  for (std::int64_t r = 0; r < rounds; ++r)
    for (int i = 0; i < kChains; ++i) {
      acc[i] = _mm512_dpbusd_epi32(acc[i], x, y);
      __asm__ volatile("" : "+v"(acc[i]));  // each product is done, not folded into one
    }
  __m512i sum = acc[0];
  for (int i = 1; i < kChains; ++i) sum = _mm512_add_epi32(sum, acc[i]);
  std::int32_t lanes[16];
  _mm512_storeu_si512(lanes, sum);
  return lanes[0];
#elif defined(__AVX2__)
  __m256i acc[kChains];
  for (__m256i& a : acc) a = _mm256_setzero_si256();
  const __m256i x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(-2), ones = _mm256_set1_epi16(1);
  for (std::int64_t r = 0; r < rounds; ++r)
    for (int i = 0; i < kChains; ++i) {
      __m256i operand = x;
      __asm__ volatile("" : "+x"(operand));
      acc[i] = _mm256_add_epi32(acc[i], _mm256_madd_epi16(_mm256_maddubs_epi16(operand, y), ones));
    }
  __m256i sum = acc[0];
  for (int i = 1; i < kChains; ++i) sum = _mm256_add_epi32(sum, acc[i]);
  return _mm256_extract_epi32(sum, 0);
#elif defined(__SSSE3__)
  __m128i acc[kChains];
  for (__m128i& a : acc) a = _mm_setzero_si128();
  const __m128i x = _mm_set1_epi8(3), y = _mm_set1_epi8(-2), ones = _mm_set1_epi16(1);
  for (std::int64_t r = 0; r < rounds; ++r)
    for (int i = 0; i < kChains; ++i) {
      __m128i operand = x;
      __asm__ volatile("" : "+x"(operand));
      acc[i] = _mm_add_epi32(acc[i], _mm_madd_epi16(_mm_maddubs_epi16(operand, y), ones));
    }
  __m128i sum = acc[0];
  for (int i = 1; i < kChains; ++i) sum = _mm_add_epi32(sum, acc[i]);
  return _mm_cvtsi128_si32(sum);
#else
  std::int32_t sum = 0;
  for (std::int64_t r = 0; r < rounds * operations_per_round / 2; ++r) {
    std::int32_t operand = 3;
    __asm__ volatile("" : "+r"(operand));
    sum += operand * -2;
  }
  return sum;
#endif
}

}  // namespace rlx::probe_loops::RLX_ISA_LEVEL

#endif
