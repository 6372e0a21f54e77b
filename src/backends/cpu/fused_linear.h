// FusedLinear on the CPU: sizes of what a worker makes of the input for itself. Included by the instruction-set units.
#pragma once

#include "backends/cpu/matmul_plan.h"
#include "backends/cpu/table.h"
#include "ir/kernel_args.h"

namespace rlx::cpu {
namespace {

// A row of the converted input.
constexpr std::int64_t fused_row_bytes(DType to, std::int64_t k) {
  return to == DType::xq8 ? k + k / 32 * 4 + k / 16 * 4 : to == DType::bf16 ? k * 2 : k * 4;
}
// Few rows every worker makes for itself, which costs less than to wait for the others (kernels.md, 2.5): 0.6 us for
// a row of 4096. More of them are dealt out and lie in the shared area.
constexpr std::int64_t kOwnRows = 4;

// A worker's own rows, and a line of f32 between the norm and a cast.
constexpr std::int64_t fused_rows_scratch(DType to, std::int64_t k) {
  return up64(kOwnRows * fused_row_bytes(to, k)) + up64(k * 4);
}
// Rows are cut into so many parts at most, with a counter of units of work each; none has fewer rows than that, since
// all panels come from memory for each.
constexpr std::int64_t kMostTerritories = 8, kTerritoryRows = 64;
// Zeroed when the call begins: int32 rows that are made; then a line for each territory with int32 units of work and
// int32 runs of rows that were taken.
constexpr std::int64_t kFusedCounters = 64 * (1 + kMostTerritories);
constexpr std::int64_t fused_shared_bytes(DType to, std::int64_t k, std::int64_t rows) {
  return kFusedCounters + up64(rows * fused_row_bytes(to, k));
}
// The rows of the shared area made ready for weights of a type (TokenTile); these follow the rows.
constexpr std::int64_t fused_ready_bytes(DType to, DType w, std::int64_t k, std::int64_t rows) {
  if (to != DType::xq8) return 0;
  return up64((rows + kMaxTileTokens - 1) / kMaxTileTokens * kMaxTileTokens * ready_bytes(w, k));
}

}  // namespace

/// The functions of one level (matmul_drive.simd.cpp) and their rows.
#define RLX_FUSED_LEVEL(level)                                     \
  namespace level {                                                \
  void fused_linear(const void* op, const KernelArgs& a) noexcept; \
  KernelTable fused_kernels();                                     \
  }
RLX_FUSED_LEVEL(baseline)
RLX_FUSED_LEVEL(avx2)
RLX_FUSED_LEVEL(avx512)
RLX_FUSED_LEVEL(avx512_bf16)
#undef RLX_FUSED_LEVEL

}  // namespace rlx::cpu
