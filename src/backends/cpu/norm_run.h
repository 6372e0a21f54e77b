// The RMS norm of one run of values, used by the norm and by the fused RoPE. The sum of squares is
// one partial per 16 values (a fixed tree of lanes), added in increasing order, so that its bits
// depend on the values alone.
#pragma once

#include "backends/cpu/simd.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

inline float inverse_rms(float squares, std::int64_t n, float eps) noexcept {
  return 1.0f / __builtin_sqrtf(squares / static_cast<float>(n) + eps);
}

/// y = x / rms(x) * (w + weight_offset).   x, y, w: [n]; y may be x.
inline void norm_run(const float* x, const float* w, float* y, std::int64_t n, float eps,
    float weight_offset) noexcept {
  float squares = 0;
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const f32x16 v = load(x + i);
    squares += sum(v * v);
  }
  const int tail = static_cast<int>(n - i);
  const f32x16 last = load_partial(x + i, tail);
  if (tail > 0) squares += sum(last * last);
  const f32x16 scale = set1(inverse_rms(squares, n, eps)), offset = set1(weight_offset);
  for (i = 0; i + 16 <= n; i += 16) store(y + i, load(x + i) * scale * (load(w + i) + offset));
  if (tail > 0) store_partial(y + i, last * scale * (load_partial(w + i, tail) + offset), tail);
}

}  // namespace
}  // namespace rlx::cpu::RLX_ISA_LEVEL
