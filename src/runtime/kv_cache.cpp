#include "runtime/kv_cache.h"

#include "base/checked.h"

namespace rlx {
namespace {

constexpr std::int64_t kAlign = 64;

// The pages of a head lie one after the other: a sequence's own are then one stream of memory for attention (head dim
// 64, bf16, from DRAM on Zen 5: 28 GB/s of a thread, with the heads of a page together 20).
struct PoolSize {
  std::int64_t k_page, v_page, k_head, v_head, k, v;  // k, v: of all heads
};

PoolSize pool_size(const StateEntry& s, const Backend& backend, std::int64_t pages) {
  const std::int64_t heads = s.shape.dim(0).evaluate({});
  const KvHeadBytes head = backend.kv_head_bytes(s.shape.dtype, s.shape.dim(1).evaluate({}));
  const auto times = [](std::int64_t a, std::int64_t b) { return require(checked_mul(a, b), "KV cache"); };
  PoolSize p{round_up(head.k, kAlign), round_up(head.v, kAlign)};
  p.k_head = times(p.k_page, pages), p.v_head = times(p.v_page, pages);
  p.k = times(p.k_head, heads), p.v = times(p.v_head, heads);
  return p;
}

// Bytes of a recurrent state for all slots.
std::int64_t recurrent_bytes(const StateEntry& s, std::int64_t slots) {
  std::int64_t bytes = require(checked_mul(slots, std::int64_t{info(s.shape.dtype).block_bytes}), "state");
  for (Dim d : s.shape.dims()) bytes = require(checked_mul(bytes, d.evaluate({})), "state");
  return require(checked_round_up(bytes, kAlign), "state");
}

std::int64_t page_count(std::int64_t slots, std::int64_t context) {
  const std::int64_t pages =
      require(checked_mul(slots, ceil_div(context, kPageTokens)), "KV cache");
  // Page ids are i32.
  if (pages > INT32_MAX)
    fail(ErrorCode::limit, "KV cache: {} pages, expected at most {}", pages, INT32_MAX);
  return pages;
}

}  // namespace

std::int64_t KvCache::bytes_for(const Program& program, const Backend& backend, std::int64_t slots,
                                std::int64_t context) {
  std::int64_t sum = 0;
  for (const StateEntry& s : program.states) {
    std::int64_t bytes = 0;
    if (s.shape.kind == ShapeKind::kv) {
      const PoolSize p = pool_size(s, backend, page_count(slots, context));
      bytes = require(checked_add(p.k, p.v), "KV cache");
    }
    if (s.shape.kind == ShapeKind::recurrent) bytes = recurrent_bytes(s, slots);
    sum = require(checked_add(sum, bytes), "KV cache");
  }
  return sum;
}

KvCache::KvCache(const Program& program, const Backend& backend, std::int64_t slots,
                 std::int64_t context)
    : slots_(slots),
      pages_per_slot_(ceil_div(context, kPageTokens)),
      // Small pages: the cache grows by pages of a few KiB, and a huge page would commit 2 MiB at
      // its first token.
      arena_(bytes_for(program, backend, slots, context), "KV cache", false) {
  const std::int64_t pages = page_count(slots, context);
  table_.resize(static_cast<std::size_t>(pages));
  for (std::size_t i = 0; i < table_.size(); ++i) table_[i] = static_cast<std::int32_t>(i);
  pools_.reserve(program.states.size());
  std::byte* at = arena_.data();
  for (const StateEntry& s : program.states) {
    if (s.shape.kind == ShapeKind::pages) {
      states_.push_back(table_.data());
      continue;
    }
    if (s.shape.kind == ShapeKind::recurrent) {
      recurrent_ = true;
      states_.push_back(at);
      at += recurrent_bytes(s, slots);
      continue;
    }
    const PoolSize p = pool_size(s, backend, pages);
    pools_.push_back({at, at + p.k, p.k_page, p.k_head, p.v_page, p.v_head, pages});
    states_.push_back(&pools_.back());
    at += p.k + p.v;
  }
}

}  // namespace rlx
