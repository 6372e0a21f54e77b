// Tile registers (AMX) with 16 rows of 64 bytes, for the units that use them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/simd.h"

#define RLX_AMX __attribute__((target("amx-tile,amx-bf16")))

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16};
};
RLX_AMX inline void configure() {
  static constexpr TileConfig kConfig;
  _tile_loadconfig(&kConfig);
}
RLX_AMX inline void release() { _tile_release(); }

/// Two vectors as bf16, one after the other, rounded to nearest even.
RLX_SIMD __m512i halves(f32x16 low, f32x16 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high.v, low.v));
}
/// The same with their lanes side by side.
RLX_SIMD __m512i pairs_of(f32x16 even, f32x16 odd) {
  alignas(64) static constexpr std::uint16_t kInterleave[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,
                                                                21, 6, 22, 7, 23, 8,  24, 9,  25, 10, 26,
                                                                11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(kInterleave), halves(even, odd));
}
RLX_SIMD void store_pairs(std::byte* to, f32x16 even, f32x16 odd) { _mm512_storeu_si512(to, pairs_of(even, odd)); }

}  // namespace
}  // namespace rlx::cpu::RLX_ISA_LEVEL
