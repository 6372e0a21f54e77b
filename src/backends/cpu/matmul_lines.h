// Decodes packed blocks of weights in registers (layouts: panels.h).
#pragma once

#include "backends/cpu/matmul_tile.h"

namespace rlx::cpu::RLX_ISA_LEVEL {

/// Asks for what follows the block in memory, `distance` bytes on: the heavier a type is to decode, the less the
/// processor runs ahead by itself (kernels.md, 1.5).
template <DType D>
RLX_SIMD void prefetch_block(const std::byte* block, std::int64_t distance) {
  each_index<(kPanel<D>.block + kLineBytes - 1) / kLineBytes>([&](auto i) RLX_INLINE {
    _mm_prefetch(reinterpret_cast<const char*>(block + distance + i * kLineBytes), _MM_HINT_T0);
  });
}

/// What codes stand for; `group` holds the steps of coded types.
template <DType D>
RLX_SIMD u8x64 steps_of(u8x64 codes, const std::byte* group) {
  if constexpr (kPanel<D>.coded)
    return lookup(*reinterpret_cast<const signed char(*)[16]>(group + kStepTable), codes);
  else
    return lookup(D == DType::mxfp4 ? kMxfp4Values : kIq4nlValues, codes);
}

/// The integers of k-step Step (0..7) of a block of a group, as stored; s8 for signed types.
template <DType D, int Step>
RLX_SIMD u8x64 packed_line(const std::byte* block, const std::byte* group) {
  constexpr PanelInfo p = kPanel<D>;
  constexpr int half = Step / 4, s = Step % 4;
  if constexpr (p.bits == 8) {
    return load_line(block + Step * kLineBytes);
  } else if constexpr (p.bits == 4 || p.bits == 5) {
    const u8x64 pair = load_line(block + s * kLineBytes);
    const u8x64 nibbles = shift<half * 4>(pair) & set1_u8(15);
    if constexpr (p.bits == 5)
      return merge(shift<Step - 4>(load_line(block + 4 * kLineBytes)), set1_u8(16), nibbles);
    else if constexpr (p.is_signed)
      return steps_of<D>(nibbles, group);
    else
      return nibbles;
  } else if constexpr (p.bits == 6) {
    const std::byte* part = block + half * 3 * kLineBytes;
    const u8x64 nibbles = shift<s / 2 * 4>(load_line(part + s % 2 * kLineBytes)) & set1_u8(15);
    return merge(shift<2 * s - 4>(load_line(part + 2 * kLineBytes)), set1_u8(48), nibbles);
  } else {
    static_assert(p.bits == 2 || p.bits == 3);
    const u8x64 pair = shift<2 * s>(load_line(block + half * kLineBytes)) & set1_u8(3);
    if constexpr (p.bits == 2) return pair;
    const u8x64 codes = merge(shift<Step - 2>(load_line(block + 2 * kLineBytes)), set1_u8(4), pair);
    return p.coded ? steps_of<D>(codes, group) : codes;
  }
}

RLX_SIMD f32x16 load_halves(const std::byte* p) {
  return load_f16(reinterpret_cast<const std::uint16_t*>(p));
}

/// Scale number `sub` of block b of a group: value = scale * (integer - offset), + packed_min for
/// types with a minimum. The integer scales of groups of 256 are multiplied with d here, not after
/// the sums over k: those would leave the range of f32 for activations near its end (faults.md,
/// N04).
template <DType D>
RLX_SIMD f32x16 packed_scale(const std::byte* group, int b, int sub) {
  constexpr PanelInfo p = kPanel<D>;
  if constexpr (D == DType::mxfp4) return load_bf16(reinterpret_cast<const std::uint16_t*>(group + b * 32));
  if constexpr (D == DType::tq2_0) return load_halves(group);
  if constexpr (!p.is_super()) return load_halves(group + b * 32);
  const std::byte* at = group + kScaleTable + (b * p.subs() + sub) * kPanelRows;
  i32x16 scale;
  if constexpr (D == DType::q2_K)
    scale = load_u8(at) & set1_i32(15);
  else if constexpr (p.has_min)
    scale = load_u8(at);
  else
    scale = load_s8(at);
  // The factor is a power of two, and d a half: nothing is rounded.
  if constexpr (p.coded)
    return load_halves(group) * set1(*reinterpret_cast<const float*>(group + kFactor)) * to_f32(scale);
  return load_halves(group) * to_f32(scale);
}
template <DType D>
RLX_SIMD f32x16 packed_min(const std::byte* group, int b, int sub) {
  constexpr PanelInfo p = kPanel<D>;
  static_assert(p.has_min);
  if constexpr (!p.is_super()) return load_halves(group + kLineBytes + b * 32);
  i32x16 low;
  if constexpr (D == DType::q2_K)
    low = shr<4>(load_u8(group + kScaleTable + (b * 2 + sub) * kPanelRows));
  else
    low = load_u8(group + kMinTable + b * kPanelRows);
  return -(load_halves(group + 32) * to_f32(low));
}

}  // namespace rlx::cpu::RLX_ISA_LEVEL
