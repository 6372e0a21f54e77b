// A paged cache in this backend's layout for the tests: sequences with page tables in mixed order,
// filled through the kernels.
#pragma once

#include <algorithm>
#include <numeric>

#include "backends/cpu/kv.h"
#include "backends/kernel_run.h"
#include "ops/attention.h"

namespace rlx::cpu {

/// What a step needs to know of its sequences.
struct Batch {
  std::vector<std::int32_t> past, counts, seq_start{0}, slot;

  Batch(std::vector<std::int32_t> past_tokens, std::vector<std::int32_t> rows_of_each,
      std::vector<std::int32_t> slots = {})
      : past(std::move(past_tokens)), counts(std::move(rows_of_each)), slot(std::move(slots)) {
    for (const std::int32_t n : counts) seq_start.push_back(seq_start.back() + n);
    if (slot.empty()) {
      slot.resize(past.size());
      std::iota(slot.begin(), slot.end(), 0);
    }
  }
  std::int64_t rows() const { return seq_start.back(); }
};

class Cache {
 public:
  Cache(DType dtype, std::int64_t kv_heads, std::int64_t head_dim, std::int64_t slots, std::int64_t pages_per_slot)
      : dtype_(dtype), kv_heads_(kv_heads), head_dim_(head_dim), bytes_(kv_page_bytes(dtype, head_dim)),
        k_(slots * pages_per_slot * kv_heads * bytes_.k_head), v_(slots * pages_per_slot * kv_heads * bytes_.v_head),
        table_(static_cast<std::size_t>(slots * pages_per_slot)), slots_(slots), pages_per_slot_(pages_per_slot) {
    pool_ = {k_.data(), v_.data(), kv_heads * bytes_.k_head, bytes_.k_head, kv_heads * bytes_.v_head, bytes_.v_head,
             slots * pages_per_slot};
    // What was never written is NaN in every dtype: a kernel that lets it count is found out.
    std::memset(pool_.k, 0xff, static_cast<std::size_t>(pool_.pages * pool_.k_page));
    std::memset(pool_.v, 0xff, static_cast<std::size_t>(pool_.pages * pool_.v_page));
    std::iota(table_.begin(), table_.end(), 0);
    std::shuffle(table_.begin(), table_.end(), std::mt19937(7));
  }

  TensorView state() {
    TensorView v = view(&pool_, {kv_heads_, head_dim_}, DType::f32);
    v.dtype = dtype_;
    v.layout = Layout::p16;
    return v;
  }
  TensorView pages() { return view(table_, {slots_, pages_per_slot_}); }

  /// Appends k, v: [rows, kv_heads * head_dim].
  void append(const Kernel& k_row, Batch& b, Floats& k, Floats& v, Workers workers = {}) {
    KvAppend op;
    const std::int64_t n = kv_heads_ * head_dim_, batch = static_cast<std::int64_t>(b.past.size());
    run(k_row, &op,
        {state(), view(k, {b.rows(), n}), view(v, {b.rows(), n}), view(b.seq_start, {batch + 1}), view(b.past, {batch}),
         view(b.slot, {batch}), pages()},
        {state()}, workers);
  }
  void append(Batch& b, Floats& k, Floats& v) { append(rows("kv_append").front(), b, k, v); }

  /// Key and value of a token, as the cache keeps them.
  void load(std::int32_t slot, std::int64_t token, std::int64_t head, float* k, float* v) const {
    const std::int64_t page = table_[static_cast<std::size_t>(slot * pages_per_slot_ + token / 64)];
    kv_load_rows({dtype_, head_dim_, pool_.k + page * pool_.k_page + head * pool_.k_head,
                  pool_.v + page * pool_.v_page + head * pool_.v_head},
                 token % 64, 1, k, v);
  }

  std::int64_t kv_heads() const { return kv_heads_; }
  std::int64_t head_dim() const { return head_dim_; }
  std::int64_t max_context() const { return pages_per_slot_ * 64; }

 private:
  DType dtype_;
  std::int64_t kv_heads_, head_dim_;
  KvPageBytes bytes_;
  Bytes k_, v_;
  KvPool pool_;
  std::vector<std::int32_t> table_;
  std::int64_t slots_, pages_per_slot_;
};

/// y = attention(q) by a row of the table. q: [rows, heads * head_dim].
inline Floats attend(const Kernel& k, const Attention& op, Cache& cache, Batch& b, Floats& q, Workers workers = {}) {
  const std::int64_t n = op.heads * cache.head_dim(), batch = static_cast<std::int64_t>(b.past.size());
  Floats y(q.size(), -77.0f);
  run(k, &op,
      {view(q, {b.rows(), n}), cache.state(), view(b.seq_start, {batch + 1}), view(b.past, {batch}),
          view(b.slot, {batch}),
       cache.pages()},
      {view(y, {b.rows(), n})}, workers, cache.max_context());
  return y;
}

}  // namespace rlx::cpu
