// FusedLinear on tile registers: sizes of its blocks (matmul_amx.avx512_bf16.cpp).
#pragma once

#include "backends/cpu/fused_linear.h"

namespace rlx::cpu {
namespace {

constexpr int kAmxTokens = 32;             // of a tile: two registers of 16
constexpr std::int64_t kAmxLeastRows = 16; // fewer rows are faster on the vector units
// Tokens that sweep over unpacked panels, which are unpacked again for each chunk.
constexpr std::int64_t kAmxChunk = 512;
constexpr std::int64_t kAmxDepth = 1024;   // k of an unpacked panel: 32 KiB
constexpr std::int64_t kAmxPanelBytes = kAmxDepth * 32;

// Of a worker: unpacked panels, sums of a chunk and those of a panel that stands in.
constexpr std::int64_t amx_scratch(int weights) {
  return kAmxPanelBytes * weights * kTilePanels +
         (kAmxChunk + kAmxTokens) * weights * kTilePanels * kPanelRows * std::int64_t{4};
}
// Whole tiles of rows, of which the last ones may hold anything.
constexpr std::int64_t amx_rows(std::int64_t rows) { return (rows + kAmxTokens - 1) / kAmxTokens * kAmxTokens; }

}  // namespace

namespace avx512_bf16 {
void fused_linear_amx(const void* op, const KernelArgs& a) noexcept;
KernelTable amx_kernels();
}

}  // namespace rlx::cpu
