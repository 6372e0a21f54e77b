// One group of 32 values to int8, used by the norm, the quantisation and the KV cache.
#pragma once

#include "backends/cpu/simd.h"

namespace rlx::cpu::RLX_ISA_LEVEL {

/// q = round-to-nearest-even(x * 127 / max|x|) of the 32 values a, b; returns d = max|x| / 127. A
/// zero group gives 0 and q = 0, a group with a non-finite value NaN and q = 0.
struct Group32 {
  i32x16 a, b;
  float d;
};
RLX_SIMD Group32 quantize_group(f32x16 a, f32x16 b) {
  const f32x16 most = max(abs(a), abs(b));
  // As integers the bits of non-finite magnitudes are above all others: max() alone would lose a NaN.
  const i32x16 top = max(as_i32(abs(a)), as_i32(abs(b)));
  if (any(gt(top, set1_i32(0x7f7fffff)))) return {zero_i32(), zero_i32(), __builtin_nanf("")};
  float m = max_lane(most);
  if (m == 0.0f) return {zero_i32(), zero_i32(), 0.0f};
  const float d = m / 127.0f;
  if (m < 1e-36f) {  // 127 / m would overflow: a power of two brings the group into range and changes no q
    const f32x16 up = set1(0x1p96f);
    a = a * up;
    b = b * up;
    m *= 0x1p96f;
  }
  const f32x16 scale = set1(127.0f / m);
  return {to_i32(a * scale), to_i32(b * scale), d};
}

}  // namespace rlx::cpu::RLX_ISA_LEVEL
