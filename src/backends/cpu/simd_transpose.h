// Transposition of small blocks of f32. Four by four on every level: one instruction a value, and a block of 64 x 64
// needs a twentieth of the time that its products take, so that wider shuffles would gain nothing there.
#pragma once

#include "backends/cpu/simd.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

/// to[c * to_stride + r] = from[r * from_stride + c] for r < rows and c < columns; strides in values.
inline void transpose_block(const float* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns,
                            float* to, std::int64_t to_stride) {
  for (std::int64_t r = 0; r < rows; r += 4) {
    std::int64_t c = 0;
    for (; r + 4 <= rows && c + 4 <= columns; c += 4) {
      const float* at = from + r * from_stride + c;
      __m128 a = _mm_loadu_ps(at), b = _mm_loadu_ps(at + from_stride), d = _mm_loadu_ps(at + 2 * from_stride),
             e = _mm_loadu_ps(at + 3 * from_stride);
      _MM_TRANSPOSE4_PS(a, b, d, e);
      float* out = to + c * to_stride + r;
      _mm_storeu_ps(out, a);
      _mm_storeu_ps(out + to_stride, b);
      _mm_storeu_ps(out + 2 * to_stride, d);
      _mm_storeu_ps(out + 3 * to_stride, e);
    }
    for (; c < columns; ++c)
      for (std::int64_t i = r; i < rows && i < r + 4; ++i) to[c * to_stride + i] = from[i * from_stride + c];
  }
}

}  // namespace
}  // namespace rlx::cpu::RLX_ISA_LEVEL
