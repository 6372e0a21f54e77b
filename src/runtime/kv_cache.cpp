#include "runtime/kv_cache.h"

#include "base/checked.h"

namespace rlx {
namespace {

constexpr std::int64_t kAlign = 64;

struct PoolSize {
  std::int64_t k_head, v_head, k_page, v_page, bytes;
};

PoolSize pool_size(const StateEntry& s, const Backend& backend, std::int64_t pages) {
  const std::int64_t heads = s.shape.dim(0).evaluate({});
  const KvHeadBytes head = backend.kv_head_bytes(s.shape.dtype, s.shape.dim(1).evaluate({}));
  PoolSize p{round_up(head.k, kAlign), round_up(head.v, kAlign), 0, 0, 0};
  p.k_page = require(checked_mul(p.k_head, heads), "KV cache");
  p.v_page = require(checked_mul(p.v_head, heads), "KV cache");
  p.bytes =
      require(checked_mul(require(checked_add(p.k_page, p.v_page), "KV cache"), pages), "KV cache");
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
    if (s.shape.kind == ShapeKind::kv)
      bytes = pool_size(s, backend, page_count(slots, context)).bytes;
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
    pools_.push_back({at, at + p.k_page * pages, p.k_page, p.k_head, p.v_page, p.v_head, pages});
    states_.push_back(&pools_.back());
    at += p.bytes;
  }
}

}  // namespace rlx
