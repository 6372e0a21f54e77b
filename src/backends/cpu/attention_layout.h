// Sizes of the tiles and scratch areas of attention. Included by the instruction-set units: internal linkage.
#pragma once

#include "backends/cpu/kv_layout.h"

namespace rlx::cpu {
namespace {

constexpr int kSplitTokens = 128;  // a split has its own running maximum; two pages
constexpr int kTileRows = 64;      // query rows (tokens x heads of a KV head) that share one pass over K and V
// up to so many rows the splits are dealt to the threads one by one
constexpr int kSplitModeTokens = 8;
constexpr std::int64_t kMaxPartialBytes = std::int64_t{64} << 20;  // of their partial results

// Query heads of a tile: a group of more than kTileRows heads is cut.
constexpr std::int64_t tile_heads(std::int64_t group) { return group < kTileRows ? group : kTileRows; }

// Floats of a worker: q, split result, running result (a row each of kv_width), scores, widened K
// and V of a page, scales of V.
constexpr std::int64_t attention_worker_floats(std::int64_t head_dim) {
  const std::int64_t width = kv_width(head_dim);
  return 3 * kTileRows * width + kTileRows * kPageTokens + kPageTokens * head_dim + kPageTokens * width +
         kPageTokens * round_up(head_dim, kKvGroup) / kKvGroup + 16;
}
// Bytes of a worker on tile registers: queries, keys, values and weights as bf16, scores, running result.
constexpr std::int64_t attention_amx_bytes(std::int64_t head_dim) {
  return (kTileRows + 2 * kSplitTokens) * head_dim * 2 + kTileRows * kSplitTokens * 6 + kTileRows * head_dim * 4;
}
// Rows of a sequence, on average, from which tile registers are faster: a tile has 16 rows (tokens x heads).
constexpr std::int64_t kAmxAttentionRows = 16;
// Floats of the partial result of `rows` rows of a split: maxima, sums, outputs.
constexpr std::int64_t partial_floats(std::int64_t rows, std::int64_t head_dim) {
  return round_up(rows * (kv_width(head_dim) + 2), 16);
}
// Zeroed bytes: the next item of all threads, then how many splits of each of `jobs` jobs are done.
constexpr std::int64_t counter_bytes(std::int64_t jobs) { return round_up((1 + jobs) * 4, 64); }

}  // namespace
}  // namespace rlx::cpu
