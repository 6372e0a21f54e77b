// Sizes that the products of all levels share: how work is cut, and the scratch that this takes.
// Included by the instruction-set units, so everything here has internal linkage. No size here
// changes a bit of a result.
#pragma once

#include <cstdint>
#include <utility>

#include "backends/cpu/panels.h"

namespace rlx::cpu {
namespace {

constexpr int kDirectTokens = 8;  // up to so many tokens, packed panels are decoded in registers
constexpr int kDirectPanels = 4;  // of which results are finished together; kernels of floats take them side by side
constexpr int kTilePanels = 2;     // most panels of a tile
constexpr int kMaxTileTokens = 8;  // most tokens of a tile
// Tokens that sweep over a pair of panels, which come from memory and are unpacked once for all of them (1B q8_0, a
// prompt of 512, two threads: 658 tok/s, with 256 620). A worker that makes them ready for itself takes fewer at once.
constexpr int kSweepTokens = 512;
constexpr int kChunkTokens = 64;
// k of the panels that are swept over: two of them stay in the L1 cache (Zen 5, one thread, q8_0, 480 tokens: 820 GOPS,
// as with 1024; with 2048 from L2 813; the ceiling of the unit is 824).
constexpr std::int64_t kIntDepth = 512;
// Floats come from L2 as fast, and fewer sums go through memory (Zen 5, layers of MiniLM and BERT: bf16 4 to 5 % faster
// than with 256, f32 1 to 2 %).
constexpr std::int64_t kFloatDepth = 2048;

constexpr std::int64_t min64(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
constexpr std::int64_t up64(std::int64_t n) { return (n + 63) / 64 * 64; }

// An unpacked block of integers: 8 lines, then the scales and then the minima of its sub-blocks as
// f32[16].
constexpr std::int64_t unpacked_block(const PanelInfo& p) {
  return 512 + 64 * p.subs() * (p.has_min ? 2 : 1);
}
constexpr std::int64_t unpacked_bytes(DType d, std::int64_t k) {
  return k / kBlock * unpacked_block(panel_info(d));
}

// Bytes of an int8 token made ready for weights of a type (TokenTile), per block and in all.
constexpr std::int64_t ready_block(DType w) { return kBlock + 4 * (1 + panel_info(w).subs()); }
constexpr std::int64_t ready_bytes(DType w, std::int64_t k) { return k / kBlock * ready_block(w); }

// The parts of a worker's scratch, each a multiple of 64 bytes.
struct MatmulScratch {
  std::int64_t tokens = 0;  // made ready
  std::int64_t panels = 0;  // unpacked panels
  std::int64_t sums = 0;    // Tile::c of a chunk
  constexpr std::int64_t total() const { return tokens + panels + sums; }
};

constexpr MatmulScratch matmul_scratch(DType x, DType w, std::int64_t k, int weights) {
  const bool int8 = x == DType::xq8;
  MatmulScratch s;
  if (int8) s.tokens = up64(kChunkTokens * ready_bytes(w, k));
  if (x == DType::bf16) s.tokens = up64(kChunkTokens * 4 * k);
  const std::int64_t panel =
      int8 ? unpacked_bytes(w, min64(k, kIntDepth)) : 64 * min64(k, kFloatDepth);
  s.panels = up64(panel) * kTilePanels;
  s.sums = std::int64_t{kSweepTokens + kMaxTileTokens} * weights * kTilePanels * 64;
  return s;
}

// The part of one worker: panels and tiles of tokens.
struct MatmulShare {
  std::int64_t panel_begin, panel_end, tile_begin, tile_end;
};

// Contiguous runs of panels, as equal as they go; where panels are too few for the workers, tokens
// are split as well.
constexpr MatmulShare matmul_share(std::int64_t panels, std::int64_t tiles, int thread,
                                   int threads) {
  std::int64_t best_rows = 1, best_cost = -1;
  for (std::int64_t rows = 1; rows <= threads && rows <= tiles; ++rows) {
    const std::int64_t columns = threads / rows;
    const std::int64_t cost = ((panels + columns - 1) / columns) * ((tiles + rows - 1) / rows);
    // Splitting tokens makes workers unpack the same panels: only for a gain of a tenth.
    if (best_cost < 0 || cost * 10 < best_cost * 9) best_cost = cost, best_rows = rows;
  }
  const std::int64_t columns = threads / best_rows, row = thread / columns,
                     column = thread % columns;
  if (row >= best_rows) return {0, 0, 0, 0};
  return {panels * column / columns, panels * (column + 1) / columns, tiles * row / best_rows,
          tiles * (row + 1) / best_rows};
}

}  // namespace
}  // namespace rlx::cpu
