// Loops that do nothing but read, or nothing but multiply, as wide as the level allows.
#include "runtime/probe_loops.h"

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

// Vectors of the compiler's own kind: the same text for every width.
using Vector = std::uint64_t __attribute__((vector_size(kBytes), may_alias));
using Floats = float __attribute__((vector_size(kBytes), may_alias));
using Ints = std::int32_t __attribute__((vector_size(kBytes), may_alias));

constexpr int kChains = 10;  // enough products in flight for two units of five cycles
constexpr std::int64_t kOperations = 2 * kChains;  // of a round, for each product of one step of a chain

// The compiler must not know a register's content: each product is done, and none is folded into another.
template <typename T>
[[gnu::always_inline]] inline void hide(T& value) {
#if defined(__AVX512F__)
  __asm__ volatile("" : "+v"(value));
#else
  __asm__ volatile("" : "+x"(value));
#endif
}

template <typename Acc, typename Step>
[[gnu::always_inline]] inline float chains(std::int64_t rounds, const Step& step) {
  // Unrolled, so that the chains stay in registers: in an array each step waits for its store, at a quarter of the
  // rate.
  Acc acc[kChains] = {};
  for (std::int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) {
      acc[i] = step(acc[i]);
      hide(acc[i]);
    }
  }
#pragma GCC unroll 16
  for (int i = 1; i < kChains; ++i) acc[0] += acc[i];
  return static_cast<float>(acc[0][0]);
}

float multiply_int8(std::int64_t rounds) noexcept {
#if defined(__AVX512VNNI__)
  const __m512i x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(-2);
  return chains<Ints>(rounds, [&](Ints a) { return Ints(_mm512_dpbusd_epi32(__m512i(a), x, y)); });
#elif defined(__AVX2__)
  const __m256i x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(-2), ones = _mm256_set1_epi16(1);
  return chains<Ints>(rounds, [&](Ints a) {
    __m256i operand = x;
    hide(operand);
    return a + Ints(_mm256_madd_epi16(_mm256_maddubs_epi16(operand, y), ones));
  });
#elif defined(__SSSE3__)
  const __m128i x = _mm_set1_epi8(3), y = _mm_set1_epi8(-2), ones = _mm_set1_epi16(1);
  return chains<Ints>(rounds, [&](Ints a) {
    __m128i operand = x;
    hide(operand);
    return a + Ints(_mm_madd_epi16(_mm_maddubs_epi16(operand, y), ones));
  });
#else
  return chains<Ints>(rounds, [](Ints a) { return a * 3 + 1; });
#endif
}

float multiply_f32(std::int64_t rounds) noexcept {
  Floats x = {}, y = {};
  x += 0.75f;
  y += 0.5f;
#if defined(__AVX512F__)
  return chains<Floats>(rounds, [&](Floats a) { return Floats(_mm512_fmadd_ps(__m512(a), __m512(x), __m512(y))); });
#elif defined(__FMA__)
  return chains<Floats>(rounds, [&](Floats a) { return Floats(_mm256_fmadd_ps(__m256(a), __m256(x), __m256(y))); });
#else
  return chains<Floats>(rounds, [&](Floats a) { return a * x + y; });
#endif
}

#if defined(__AVX512BF16__)
// Tile registers 0 to 3 hold sums, as in a product of two tiles of rows and two panels. The factors are numbers of both
// signs and several exponents, as weights and rows are: products of zeros ran up to 20 % faster (18.5 of 15.5 TFLOP/s).
__attribute__((target("amx-tile,amx-bf16"))) float multiply_amx(std::int64_t rounds) noexcept {
  struct alignas(64) {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } const config;
  alignas(64) std::uint16_t factors[4][512];
  std::uint32_t seed = 1;
  for (auto& tile : factors)
    for (std::uint16_t& value : tile) {
      seed = seed * 1664525u + 1013904223u;
      value = static_cast<std::uint16_t>(0x3c00u | (seed >> 31 << 15) | (seed >> 16 & 0x3ffu));  // 2^-7 to 2
    }
  __asm__ volatile("" : : "r"(factors) : "memory");  // GCC does not see what tiles read
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, factors[0], 64);
  _tile_loadd(5, factors[1], 64);
  _tile_loadd(6, factors[2], 64);
  _tile_loadd(7, factors[3], 64);
  for (std::int64_t r = 0; r < rounds / 32; ++r) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  float sums[256];
  _tile_stored(0, sums, 64);
  _tile_release();
  return sums[0];
}

float multiply_bf16(std::int64_t rounds) noexcept {
  const __m512bh x = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.75f), _mm512_set1_ps(0.5f));
  return chains<Floats>(rounds, [&](Floats a) { return Floats(_mm512_dpbf16_ps(__m512(a), x, x)); });
}
#endif

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

#if defined(__SSSE3__)
const ProbeLoop int8 = {multiply_int8, kOperations * static_cast<std::int64_t>(kBytes)};
#else
const ProbeLoop int8 = {multiply_int8, kOperations * static_cast<std::int64_t>(kBytes / 4)};
#endif
const ProbeLoop f32 = {multiply_f32, kOperations * static_cast<std::int64_t>(kBytes / 4)};
#if defined(__AVX512BF16__)
const ProbeLoop bf16 = {multiply_bf16, kOperations * static_cast<std::int64_t>(kBytes / 2)};
// Four products of 16 x 16 x 32 in each 32 rounds.
const ProbeLoop amx = {multiply_amx, 4 * 16 * 16 * 32 * 2 / 32};
#else
const ProbeLoop bf16 = f32;
#endif

}  // namespace rlx::probe_loops::RLX_ISA_LEVEL
