// What the kernels of convolutions and pooling share: tensors as [batch, channel, three spatial axes], and which places
// of a row a tap of a window reads. Included by instruction-set units.
#pragma once

#include "backends/cpu/work.h"
#include "ops/window.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

/// An f32 view [batch, channels, spatial...] whose last axis is contiguous; strides in elements.
struct Volume {
  float* data;
  std::int64_t strides[5];

  explicit Volume(const TensorView& v) : data(static_cast<float*>(v.data)), strides{} {
    strides[0] = v.strides[0] / 4;
    strides[1] = v.strides[1] / 4;
    for (int i = 2; i < v.rank; ++i) strides[5 - v.rank + i] = v.strides[i] / 4;
  }
  float* row(std::int64_t n, std::int64_t c, std::int64_t i, std::int64_t j) const {
    return data + n * strides[0] + c * strides[1] + i * strides[2] + j * strides[3];
  }
};

inline std::int64_t ceil_of(std::int64_t a, std::int64_t b) {
  return a <= 0 ? 0 : b == 1 ? a : (a + b - 1) / b;
}

/// The p in [0, limit) with 0 <= p * step + offset < size.
inline Range inside(std::int64_t offset, std::int64_t step, std::int64_t size, std::int64_t limit) {
  Range r{-offset, size - offset};
  if (step == 1) {
    if (r.begin < 0) r.begin = 0;
    if (r.end < 0) r.end = 0;
  } else {
    r = {ceil_of(r.begin, step), ceil_of(r.end, step)};
  }
  if (r.end > limit) r.end = limit;
  if (r.begin > r.end) r.begin = r.end;
  return r;
}

/// Up to 16 values p[0], p[step], ...; the lanes beyond are 0.
RLX_SIMD f32x16 load_step(const float* p, std::int64_t step, int lanes) {
  if (step == 1) return lanes == kLanes ? load(p) : load_partial(p, lanes);
#if defined(RLX_WIDE)
  if (step == 2) {  // the even ones of 31
    const int values = 2 * lanes - 1;
    const f32x16 low = load_partial(p, values < kLanes ? values : kLanes);
    const f32x16 high = load_partial(p + kLanes, values < kLanes ? 0 : values - kLanes);
    alignas(64) static constexpr int kEven[16] = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
    return {_mm512_permutex2var_ps(low.v, load_i32(kEven).v, high.v)};
  }
#endif
  alignas(64) float t[16] = {};
  for (int i = 0; i < lanes; ++i) t[i] = p[i * step];
  return load(t);
}

/// y[p] = f(y[p], x[p * step]) for p in [0, n).
template <typename F>
RLX_SIMD void update_row(float* y, const float* x, std::int64_t step, std::int64_t n, F f) {
  std::int64_t p = 0;
  for (; p + kLanes <= n; p += kLanes) store(y + p, f(load(y + p), load_step(x + p * step, step, kLanes)));
  if (const int rest = static_cast<int>(n - p); rest > 0)
    store_partial(y + p, f(load_partial(y + p, rest), load_step(x + p * step, step, rest)), rest);
}

/// Calls f(row of x, row offset p0, count) for each tap of a window that meets the output row (i, j): the places
/// y[p0 .. p0 + count) read x[0], x[stride], ...; `tap` counts through the kernel.
template <typename F>
RLX_SIMD void each_tap(const WindowPlan& w, const Volume& x, const std::int64_t (&at)[4], F f) {
  for (std::int64_t k0 = 0; k0 < w.kernel[0]; ++k0) {
    const std::int64_t i = at[2] * w.stride[0] + k0 * w.dilation[0] - w.begin[0];
    if (i < 0 || i >= w.in[0]) continue;
    for (std::int64_t k1 = 0; k1 < w.kernel[1]; ++k1) {
      const std::int64_t j = at[3] * w.stride[1] + k1 * w.dilation[1] - w.begin[1];
      if (j < 0 || j >= w.in[1]) continue;
      const float* row = x.row(at[0], at[1], i, j);
      for (std::int64_t k2 = 0; k2 < w.kernel[2]; ++k2) {
        const std::int64_t offset = k2 * w.dilation[2] - w.begin[2];
        const Range r = inside(offset, w.stride[2], w.in[2], w.out[2]);
        if (r.begin < r.end)
          f((k0 * w.kernel[1] + k1) * w.kernel[2] + k2, row + r.begin * w.stride[2] + offset, r);
      }
    }
  }
}

}  // namespace
}  // namespace rlx::cpu::RLX_ISA_LEVEL
