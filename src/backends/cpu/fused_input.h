// A row of the input of a fused product: normalised and converted, with the bits of RmsNorm, RmsNormQuantize,
// QuantizeRows and Cast.
#pragma once

#include "backends/cpu/norm_run.h"
#include "ops/fused.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

inline void to_bf16_run(const float* x, std::uint16_t* y, std::int64_t n) noexcept {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) store_bf16(y + i, load(x + i));
  const int tail = static_cast<int>(n - i);
  if (tail > 0) store_bf16_partial(y + i, load_partial(x + i, tail), tail);
}

/// x: f32[k]; norm: f32[k]; out: a row of `to`; line: f32[k] of scratch.
inline void make_input_row(const FusedLinear& op, const float* x, const float* norm, std::int64_t k, std::byte* out,
    float* line) noexcept {
  if (op.to == DType::xq8) {
    if (op.norm)
      norm_quantize_run(x, norm, out, k, op.eps, op.weight_offset);
    else
      quantize_run(x, out, k);
    return;
  }
  float* const normed = op.to == DType::bf16 ? line : reinterpret_cast<float*>(out);
  if (op.norm) {
    norm_run(x, norm, normed, k, op.eps, op.weight_offset);
    x = normed;
  }
  if (op.to == DType::bf16) to_bf16_run(x, reinterpret_cast<std::uint16_t*>(out), k);
}

}  // namespace
}  // namespace rlx::cpu::RLX_ISA_LEVEL
