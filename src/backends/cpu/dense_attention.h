// Attention over the rows of a step, and what goes with it (ops/dense_attention.h): sizes that the rows of
// dense_attention.simd.cpp share and that depend on no instruction set.
#pragma once

#include <cstdint>

#include "backends/cpu/table.h"

namespace rlx::cpu {

inline constexpr int kDenseQueries = 16;  ///< rows of a job: what shares a transposed tile of keys
inline constexpr int kDenseKeys = 64;     ///< keys of a tile, counted from the start of the sequence

/// Floats of a head's value, padded to whole vectors.
constexpr std::int64_t padded_lanes(std::int64_t n) { return (n + 15) / 16 * 16; }
/// One worker: the tile of keys [head_dim][64], the scores [16][64], the sums [16][value_dim].
constexpr std::int64_t dense_worker_floats(std::int64_t head_dim, std::int64_t value_dim) {
  return head_dim * kDenseKeys + kDenseQueries * (kDenseKeys + padded_lanes(value_dim));
}

bool accepts_dense_attention(const KernelQuery&);  ///< f32, plain
bool accepts_pool_sequences(const KernelQuery&);   ///< f32, plain
ScratchNeed dense_attention_scratch(const ScratchQuery&);

/// Rows that are the same on every level: tables that are made once per session.
KernelTable relative_bias_kernels();

}  // namespace rlx::cpu
