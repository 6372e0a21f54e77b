// Scores to weights: what the kernels of attention over the cache share, on vectors and on tile registers.
#pragma once

#include "backends/cpu/simd.h"
#include "backends/cpu/simd_math.h"
#include "ops/attention.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

constexpr float kLowest = -__builtin_inff();

// What is subtracted from scores: a row that has seen only -inf subtracts 0, so that exp gives 0 and not NaN.
RLX_SIMD f32x16 finite_or_zero(f32x16 most) { return select(eq(most, set1(kLowest)), zero_f32(), most); }
// w[i] = exp(from[i] - to[i]) for n rows, sixteen at a time; the arrays have room for multiples of 16.
inline void weights_of(const float* from, const float* to, float* w, int n) noexcept {
  for (int i = 0; i < n; i += 16) store(w + i, exp(load(from + i) - finite_or_zero(load(to + i))));
}
inline void scale_row(float* row, std::int64_t n, float by) noexcept {
  for (std::int64_t i = 0; i < n; i += 16) store(row + i, load(row + i) * set1(by));
}

/// Scale, cap and mask of 16 scores, of which the row sees lanes [from, to).
RLX_SIMD f32x16 seen_scores(const Attention& op, const float* scores, int from, int to) {
  f32x16 s = load(scores) * set1(op.scale);
  if (op.softcap > 0) s = softcap(s, op.softcap);
  if (from > 0) s = select(first_lanes(from), set1(kLowest), s);
  if (to < 16) s = select(first_lanes(to), s, set1(kLowest));
  return s;
}

}  // namespace
}  // namespace rlx::cpu::RLX_ISA_LEVEL
