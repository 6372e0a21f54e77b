// Packed panels as lines of pairs of bf16, which a tile register takes sixteen of (matmul_amx.avx512_bf16.cpp).
#pragma once

#include "backends/cpu/matmul_float.h"
#include "backends/cpu/tile_registers.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

/// Byte J of each lane, 0..255, as the float 256 + byte: it becomes the upper eight bits of the mantissa.
template <int J>
RLX_SIMD f32x16 above_256(u8x64 line) {
  constexpr int up = 15 - 8 * J;
  __m512i bits;
  if constexpr (up > 0)
    bits = _mm512_slli_epi32(line.v, up);
  else
    bits = _mm512_srli_epi32(line.v, -up);
  return {_mm512_castsi512_ps(
      _mm512_ternarylogic_epi32(bits, _mm512_set1_epi32(0x007f8000), _mm512_set1_epi32(0x43800000), 0xea))};
}

/// The 32 columns of packed block b of a group as lines of pairs. A value is one fused product of 256 + integer, in
/// which the 256 scales that are too many are part of the minimum: within 2^-16 of a scale of the reference decoder's,
/// far below what rounding to bf16 takes, for three instructions in place of five to six.
template <DType D>
RLX_SIMD void pair_block(const std::byte* group, int b, std::byte* out) {
  constexpr PanelInfo p = kPanel<D>;
  const std::byte* block = group + p.header + std::int64_t{b} * p.block;
  each_index<p.subs()>([&](auto s) RLX_INLINE {
    constexpr int surplus = 256 + (p.is_signed ? 128 : p.offset);
    const f32x16 scale = packed_scale<D>(group, b, s);
    f32x16 low = zero_f32();
    if constexpr (p.has_min) low = packed_min<D>(group, b, s);
    low = fnma(set1(surplus), scale, low);
    each_index<p.sub / 4>([&](auto i) RLX_INLINE {
      constexpr int step = s * (p.sub / 4) + i;
      u8x64 line = packed_line<D, step>(block, group);
      if constexpr (p.is_signed) line = line ^ set1_u8(128);
      const auto value = [&](auto j) RLX_INLINE { return fma(above_256<j>(line), scale, low); };
      store_pairs(out + 2 * step * kLineBytes, value(Index<0>{}), value(Index<1>{}));
      store_pairs(out + (2 * step + 1) * kLineBytes, value(Index<2>{}), value(Index<3>{}));
    });
  });
}

/// Columns [first, first + k) of a packed panel as lines of pairs; both are multiples of the group, or k ends it.
template <DType D>
void pair_unpack(const std::byte* panel, std::int64_t first, std::int64_t k, std::byte* out) noexcept {
  constexpr PanelInfo p = kPanel<D>;
  if constexpr (D == DType::bf16) {
    // Such lines already. A copy for all that: tiles that read the weights where they lie wait for memory longer.
    const std::byte* from = panel + first * 32;
    for (std::int64_t i = 0; i < k / 2; ++i) store_line(out + i * kLineBytes, load_line(from + i * kLineBytes));
  } else if constexpr (p.group == 0) {
    f32x16 even = zero_f32();
    constexpr std::int64_t column = D == DType::f32 ? 64 : 32;
    widen_floats<D>(panel + first * column, k, [&](std::int64_t i, f32x16 w) RLX_INLINE {
      if (i % 2 == 0)
        even = w;
      else
        store_pairs(out + i / 2 * kLineBytes, even, w);
    });
  } else {
    const std::byte* group = panel + first / p.group * p.group_bytes();
    for (std::int64_t done = 0; done < k; done += p.group, group += p.group_bytes()) {
      const int blocks = static_cast<int>(min64(p.group, k - done) / kBlock);
      for (int b = 0; b < blocks; ++b, out += kBlock / 2 * kLineBytes) pair_block<D>(group, b, out);
    }
  }
}

inline UnpackFn pair_unpack_of(DType w) {
  switch (panel_form(w)) {
#define RLX_CASE(type) \
  case DType::type:    \
    return pair_unpack<DType::type>;
    RLX_CASE(f32)
    RLX_CASE(f16)
    RLX_CASE(bf16)
    RLX_CASE(q4_0)
    RLX_CASE(q4_1)
    RLX_CASE(q5_0)
    RLX_CASE(q5_1)
    RLX_CASE(q8_0)
    RLX_CASE(iq4_nl)
    RLX_CASE(q2_K)
    RLX_CASE(q3_K)
    RLX_CASE(q4_K)
    RLX_CASE(q5_K)
    RLX_CASE(q6_K)
    RLX_CASE(tq2_0)
    RLX_CASE(iq2_xs)
    RLX_CASE(iq4_xs)
    RLX_CASE(mxfp4)
#undef RLX_CASE
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace rlx::cpu::RLX_ISA_LEVEL
