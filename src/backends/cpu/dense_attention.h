// Attention over the rows of a step, and what goes with it (ops/dense_attention.h): sizes that the rows of
// dense_attention.simd.cpp share and that depend on no instruction set.
#pragma once

#include <cstdint>

#include "backends/cpu/table.h"

namespace rlx::cpu {

inline constexpr int kDenseQueries = 64;  ///< most rows of a job, in the lanes of its vectors
inline constexpr int kDenseKeys = 64;     ///< keys of a tile, counted from the start of the sequence

/// One worker: queries [head_dim][64], scores [64 keys][64], sums [value_dim][64], a line of biases by distance.
constexpr std::int64_t dense_worker_floats(std::int64_t head_dim, std::int64_t value_dim) {
  return (head_dim + kDenseKeys + value_dim) * kDenseQueries + kDenseKeys + kDenseQueries;
}

bool accepts_dense_attention(const KernelQuery&);  ///< f32, plain
bool accepts_pool_sequences(const KernelQuery&);   ///< f32, plain
ScratchNeed dense_attention_scratch(const ScratchQuery&);

/// Rows that are the same on every level: tables that are made once per session.
KernelTable relative_bias_kernels();

}  // namespace rlx::cpu
