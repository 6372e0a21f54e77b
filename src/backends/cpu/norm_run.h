// The RMS norm of one run of values, alone and with its quantisation, used by the norm, the fused RoPE and the fused
// products. The sum of squares is
// one partial per 16 values (a fixed tree of lanes), added in increasing order, so that its bits
// depend on the values alone.
#pragma once

#include "backends/cpu/quantize_group.h"
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

/// A row of xq8: int8 q[n], float d[n / 32], int32 sum[n / 16] (dtype.h).
struct Int8Row {
  signed char* q;
  float* d;
  std::int32_t* sums;
  Int8Row(std::byte* row, std::int64_t n)
      : q(reinterpret_cast<signed char*>(row)), d(reinterpret_cast<float*>(q + n)),
        sums(reinterpret_cast<std::int32_t*>(d + n / 32)) {}
  /// Group `g`: values lo, hi.
  RLX_SIMD void put(std::int64_t g, f32x16 lo, f32x16 hi) const {
    const Group32 group = quantize_group(lo, hi);
    store_s8(q + g * 32, group.a);
    store_s8(q + g * 32 + 16, group.b);
    d[g] = group.d;
    sums[g * 2] = sum(group.a);
    sums[g * 2 + 1] = sum(group.b);
  }
};

inline void quantize_run(const float* x, std::byte* y, std::int64_t n) noexcept {
  const Int8Row row(y, n);
  for (std::int64_t g = 0; g < n / 32; ++g) row.put(g, load(x + g * 32), load(x + g * 32 + 16));
}

/// The groups' scales are written before 1/rms is known and multiplied at the end.
inline void norm_quantize_run(const float* x, const float* w, std::byte* y, std::int64_t n, float eps,
    float weight_offset) noexcept {
  const Int8Row row(y, n);
  const f32x16 offset = set1(weight_offset);
  float squares = 0;
  for (std::int64_t i = 0; i < n; i += 32) {
    const f32x16 lo = load(x + i), hi = load(x + i + 16);
    squares += sum(lo * lo);
    squares += sum(hi * hi);
    row.put(i / 32, lo * (load(w + i) + offset), hi * (load(w + i + 16) + offset));
  }
  const float scale = inverse_rms(squares, n, eps);
  for (std::int64_t i = 0; i < n / 32; ++i) row.d[i] *= scale;
}

}  // namespace
}  // namespace rlx::cpu::RLX_ISA_LEVEL
