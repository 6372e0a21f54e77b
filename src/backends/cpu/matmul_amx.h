// FusedLinear on tile registers: sizes of its blocks (matmul_amx.avx512_bf16.cpp).
#pragma once

#include "backends/cpu/fused_linear.h"

namespace rlx::cpu {
namespace {

constexpr int kAmxTokens = 32;              // of a strip of rows: two tile registers of 16
constexpr std::int64_t kAmxLeastRows = 16;  // fewer rows are faster on the vector units
constexpr int kAmxStep = 32;                // k of one product of tiles
constexpr std::int64_t kAmxTileBytes = 1024;
// k that a strip of rows runs over all panels at hand: 16 KiB, which stay in L1 beside the lines of a panel. With 512
// a product of tiles alone costs 15 % more, with 2048 30 to 70 %.
constexpr std::int64_t kAmxInner = 256;
// k of unpacked panels: they stay in L2 for all strips of a chunk.
constexpr std::int64_t kAmxDepth = 2048;
constexpr std::int64_t kAmxPanelBytes = kAmxDepth * kPanelRows * 2;
// Unpacked at once, of all weights. The first of them brings the rows into L1 and takes twice the time of the others.
constexpr int kAmxPanels = 8, kAmxLeastPanels = 4;
// Rows that sweep over unpacked panels, which are unpacked again for each chunk (12 % of the work of q4_K). 256 rows of
// 2048 are 1 MiB and stay in L2 from panels to panels; 512 come from L3, and the first panel of a strip then takes five
// times as long as the others.
constexpr std::int64_t kAmxChunk = 256;
constexpr std::int64_t kAmxTileSums = kAmxTokens * kPanelRows;  // of a strip and a panel

// Of a worker: unpacked panels, sums of a chunk.
constexpr std::int64_t kAmxScratch =
    kAmxPanels * (kAmxPanelBytes + kAmxChunk / kAmxTokens * kAmxTileSums * std::int64_t{4});
// The rows as bf16 in whole strips, of which the last rows may hold anything.
constexpr std::int64_t amx_rows_bytes(std::int64_t rows, std::int64_t k) {
  return (rows + kAmxTokens - 1) / kAmxTokens * kAmxTokens * k * 2;
}

}  // namespace

namespace avx512_bf16 {
void fused_linear_amx(const void* op, const KernelArgs& a) noexcept;
KernelTable amx_kernels();
}

}  // namespace rlx::cpu
