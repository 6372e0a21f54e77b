// Between the stored integers of a block and the lines of a panel (panels.h), and from the blocks
// of files to their integers. Used by pack.cpp and unpack.cpp only.
#pragma once

#include <smmintrin.h>

#include <cstddef>
#include <cstring>

#include "backends/cpu/panels.h"
#include "tensor/quant/blocks.h"
#include "tensor/quant/iq4_nl.h"
#include "tensor/quant/mxfp4.h"
#include "tensor/quant/k_scales.h"
#include "tensor/quant/q2_k.h"
#include "tensor/quant/q3_k.h"
#include "tensor/quant/q4_0.h"
#include "tensor/quant/q4_1.h"
#include "tensor/quant/q4_k.h"
#include "tensor/quant/q5_0.h"
#include "tensor/quant/q5_1.h"
#include "tensor/quant/q5_k.h"
#include "tensor/quant/q6_k.h"
#include "tensor/quant/q8_0.h"
#include "tensor/quant/tq.h"

namespace rlx::cpu {

/// The integers of a block of a file in the order of k, and its scales as the panel's header holds
/// them.
struct Integers {
  alignas(16) std::uint8_t q[256];
  std::uint16_t d = 0, m = 0;
  std::uint8_t table[2][16] = {};  ///< of groups of 256: scales, then minima (q4_K, q5_K)
};

inline __m128i load16(const std::uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
inline void store16(std::uint8_t* p, __m128i v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v);
}
/// (v >> shift) & mask in each byte.
inline __m128i field16(__m128i v, int shift, int mask) {
  return _mm_and_si128(_mm_srli_epi16(v, shift), _mm_set1_epi8(static_cast<char>(mask)));
}

/// 32 four-bit integers of a block whose byte i holds i below and i + 16 above.
inline void expand_nibbles(const std::uint8_t* bytes, std::uint8_t* q) {
  const __m128i b = load16(bytes);
  store16(q, field16(b, 0, 15));
  store16(q + 16, field16(b, 4, 15));
}
/// ORs bit i of `bits` to integer i at place `at`.
inline void add_bits(const std::uint8_t* bits, std::uint8_t* q, int at) {
  const __m128i pick = _mm_set1_epi64x(static_cast<long long>(0x8040201008040201ull));
  const __m128i value = _mm_set1_epi8(static_cast<char>(1 << at));
  for (int half = 0; half < 2; ++half, bits += 2, q += 16) {
    const __m128i spread =
        _mm_set_epi64x(bits[1] * 0x0101010101010101ll, bits[0] * 0x0101010101010101ll);
    const __m128i set = _mm_cmpeq_epi8(_mm_and_si128(spread, pick), pick);
    store16(q, _mm_or_si128(load16(q), _mm_and_si128(set, value)));
  }
}

// Fields are read from where they lie: a copy of the block would be read back at other boundaries
// than it was written, which stalls the processor (five times slower).
#define RLX_FIELD(Block, field) (at + offsetof(Block, field))

inline std::uint16_t half_at(const std::uint8_t* at) {
  std::uint16_t bits;
  std::memcpy(&bits, at, 2);
  return bits;
}

/// Reads one block of the file.
template <typename Block>
void expand_block(const std::uint8_t* at, Integers& r) {
  if constexpr (requires { &Block::d; }) r.d = half_at(RLX_FIELD(Block, d));
  if constexpr (requires { &Block::m; }) r.m = half_at(RLX_FIELD(Block, m));
  expand_nibbles(RLX_FIELD(Block, q), r.q);
  if constexpr (requires { &Block::high; }) add_bits(RLX_FIELD(Block, high), r.q, 4);
}

/// q4_K and q5_K: byte i of 32 bytes holds k = i of one sub-block below and of the next above.
template <typename Block>
void expand_k4(const std::uint8_t* at, Integers& r) {
  r.d = half_at(RLX_FIELD(Block, d)), r.m = half_at(RLX_FIELD(Block, dmin));
  const KScales s = unpack_k_scales(RLX_FIELD(Block, scales));
  std::memcpy(r.table[0], s.scale, 8);
  std::memcpy(r.table[1], s.min, 8);
  for (int i = 0; i < 256; i += 16) {
    const int j = i / 32, half = i % 32;
    __m128i q = field16(load16(RLX_FIELD(Block, q) + j / 2 * 32 + half), j % 2 * 4, 15);
    if constexpr (requires { &Block::high; })
      q = _mm_or_si128(q, _mm_slli_epi16(field16(load16(RLX_FIELD(Block, high) + half), j, 1), 4));
    store16(r.q + i, q);
  }
}
template <>
inline void expand_block<BlockQ4K>(const std::uint8_t* at, Integers& r) {
  expand_k4<BlockQ4K>(at, r);
}
template <>
inline void expand_block<BlockQ5K>(const std::uint8_t* at, Integers& r) {
  expand_k4<BlockQ5K>(at, r);
}
template <>
inline void expand_block<BlockQ6K>(const std::uint8_t* at, Integers& r) {
  r.d = half_at(RLX_FIELD(BlockQ6K, d));
  std::memcpy(r.table[0], RLX_FIELD(BlockQ6K, scales), 16);
  for (int i = 0; i < 256; i += 16) {
    const int half = i / 128, within = i % 128;
    const __m128i low = load16(RLX_FIELD(BlockQ6K, low) + half * 64 + within % 64);
    const __m128i high = load16(RLX_FIELD(BlockQ6K, high) + half * 32 + within % 32);
    store16(r.q + i, _mm_or_si128(field16(low, within / 64 * 4, 15),
                                  _mm_slli_epi16(field16(high, within / 32 * 2, 3), 4)));
  }
}
template <>
inline void expand_block<BlockQ2K>(const std::uint8_t* at, Integers& r) {
  r.d = half_at(RLX_FIELD(BlockQ2K, d)), r.m = half_at(RLX_FIELD(BlockQ2K, dmin));
  std::memcpy(r.table[0], RLX_FIELD(BlockQ2K, scales), 16);
  for (int i = 0; i < 256; i += 16)
    store16(r.q + i,
            field16(load16(RLX_FIELD(BlockQ2K, q) + i / 128 * 32 + i % 32), i % 128 / 32 * 2, 3));
}
template <>
inline void expand_block<BlockQ3K>(const std::uint8_t* at, Integers& r) {
  r.d = half_at(RLX_FIELD(BlockQ3K, d));
  const std::uint8_t* scales = RLX_FIELD(BlockQ3K, scales);
  for (int s = 0; s < 16; ++s) {
    const int low = scales[s % 8] >> (s / 8 * 4) & 15, top = scales[8 + s % 4] >> (s / 4 * 2) & 3;
    r.table[0][s] = static_cast<std::uint8_t>((low | top << 4) - 32);
  }
  for (int i = 0; i < 256; i += 16) {
    const __m128i low = load16(RLX_FIELD(BlockQ3K, q) + i / 128 * 32 + i % 32);
    const __m128i top = load16(RLX_FIELD(BlockQ3K, high) + i % 32);
    store16(r.q + i, _mm_or_si128(field16(low, i % 128 / 32 * 2, 3),
                                  _mm_slli_epi16(field16(top, i / 32, 1), 2)));
  }
}
template <>
inline void expand_block<BlockTq1_0>(const std::uint8_t* at, Integers& r) {
  const auto b = load_block<BlockTq1_0>(reinterpret_cast<const std::byte*>(at), 0);
  r.d = b.d;
  expand_tq1_0(b, r.q);
}
template <>
inline void expand_block<BlockTq2_0>(const std::uint8_t* at, Integers& r) {
  r.d = half_at(RLX_FIELD(BlockTq2_0, d));
  for (int i = 0; i < 256; i += 16)
    store16(r.q + i, field16(load16(RLX_FIELD(BlockTq2_0, q) + i / 128 * 32 + i % 32), i % 128 / 32 * 2, 3));
}

inline std::uint32_t or_lanes(__m128i v) {
  v = _mm_or_si128(v, _mm_srli_si128(v, 8));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_or_si128(v, _mm_srli_si128(v, 4))));
}

/// Bit `bit` of 32 integers as a lane of the line that holds one bit of each k-step.
inline std::uint32_t bit_plane(__m128i low, __m128i high, int bit) {
  const __m128i step = _mm_setr_epi32(1, 2, 4, 8);
  const __m128i l = _mm_mullo_epi32(field16(low, bit, 1), step);
  const __m128i h = _mm_slli_epi16(_mm_mullo_epi32(field16(high, bit, 1), step), 4);
  return or_lanes(_mm_or_si128(l, h));
}
/// 16 two-bit integers as a lane: k-step s at bit 2 s.
inline std::uint32_t pair_plane(__m128i v) {
  return or_lanes(_mm_mullo_epi32(v, _mm_setr_epi32(1, 4, 16, 64)));
}

/// The row's four bytes of each line of a block, from its 32 integers.
template <DType D>
void line_words(const std::uint8_t* q, std::uint32_t* words) {
  constexpr PanelInfo p = panel_info(D);
  auto* bytes = reinterpret_cast<std::uint8_t*>(words);
  const __m128i low = load16(q), high = load16(q + 16);
  if constexpr (p.bits == 8) {
    store16(bytes, low);
    store16(bytes + 16, high);
  } else if constexpr (p.bits == 4 || p.bits == 5) {
    store16(bytes, _mm_or_si128(field16(low, 0, 15), _mm_slli_epi16(field16(high, 0, 15), 4)));
    if constexpr (p.bits == 5) words[4] = bit_plane(low, high, 4);
  } else if constexpr (p.bits == 6) {
    for (const __m128i v : {low, high}) {
      const __m128i nibbles = field16(v, 0, 15);
      const __m128i pair = _mm_or_si128(nibbles, _mm_slli_epi16(_mm_srli_si128(nibbles, 8), 4));
      _mm_storel_epi64(reinterpret_cast<__m128i*>(words), pair);
      words[2] = pair_plane(field16(v, 4, 3));
      words += 3;
    }
  } else {
    static_assert(p.bits == 2 || p.bits == 3);
    words[0] = pair_plane(field16(low, 0, 3));
    words[1] = pair_plane(field16(high, 0, 3));
    if constexpr (p.bits == 3) words[2] = bit_plane(low, high, 2);
  }
}

}  // namespace rlx::cpu
