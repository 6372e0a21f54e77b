#include "ops/paged.h"

#include <cstring>

#include "base/checked.h"
#include "ops/access.h"
#include "ops/checks.h"
#include "tensor/quant/codec.h"

namespace rlx::paged {

KvDims infer_cache(InferContext& c, int i) {
  c.is_kind(i, ShapeKind::kv);
  const Shape& cache = c.in(i);
  const auto heads = cache.dim(0).constant(), head_dim = cache.dim(1).constant();
  if (!heads || !head_dim || *heads < 1 || *head_dim < 1)
    c.fail("{}: expected fixed KV heads and head_dim of at least 1, found {}", c.operand(i),
           cache.text());
  const DType d = cache.dtype;
  if (d != DType::f32 && d != DType::f16 && d != DType::bf16 && d != DType::q8_0)
    c.fail("{}: expected f32, f16, bf16 or q8_0, found {}", c.operand(i), cache.text());
  if (*head_dim % info(d).block_elements != 0)
    c.fail("{}: {} needs a head_dim that is a multiple of {}, found {}", c.operand(i), name(d),
           info(d).block_elements, *head_dim);
  return {*heads, *head_dim};
}

void infer_sequences(InferContext& c, int first) {
  checks::plain(c, first, DType::i32, 1);
  checks::plain(c, first + 1, DType::i32, 1);
  const Dim batch = c.in(first + 1).dim(0);
  checks::vector(c, first, DType::i32, batch + 1, "batch + 1");
  checks::vector(c, first + 2, DType::i32, batch, "batch");
  c.is_kind(first + 3, ShapeKind::pages);
}

Sequences::Sequences(const KernelArgs& a, int first, const TensorView& cache, std::int64_t rows)
    : cache_(&cache), row_bytes_(row_bytes(cache.dtype, cache.dims[1])) {
  const TensorView &starts = a.in[first], &past = a.in[first + 1], &slots = a.in[first + 2],
                   &table = a.in[first + 3];
  std::int64_t begin = access::load_index(starts, 0, 1, "seq_start");
  for (std::int64_t b = 0; b < past.dims[0]; ++b) {
    Sequence s{begin, access::load_index(starts, b + 1, rows + 1, "seq_start"), 0, {}};
    if (s.end < s.begin)
      fail(ErrorCode::invalid_argument,
           "seq_start: expected values that do not fall, found {} after {}", s.end, s.begin);
    const std::int64_t capacity = table.dims[1] * kPageTokens;
    s.past = access::load_index(past, b, capacity + 1, "past");
    const std::int64_t tokens = s.past + s.end - s.begin;
    if (tokens > capacity)
      fail(ErrorCode::invalid_argument, "sequence {}: {} tokens do not fit in the {} of its pages",
           b, tokens, capacity);
    const std::int64_t slot = access::load_index(slots, b, table.dims[0], "slot");
    for (std::int64_t i = 0; s.end > s.begin && i < ceil_div(tokens, kPageTokens); ++i) {
      const auto page = static_cast<std::int64_t>(access::load(table, slot, i));
      if (page < 0 || page >= cache.pool().pages)
        fail(ErrorCode::invalid_argument,
             "pages: expected a page from 0 to {}, found {} for slot {}", cache.pool().pages - 1,
             page, slot);
      s.pages.push_back(page);
    }
    begin = s.end;
    seqs_.push_back(std::move(s));
  }
}

std::byte* Sequences::token(std::int64_t b, std::int64_t token, std::int64_t head,
                            bool keys) const {
  const KvPool& pool = cache_->pool();
  const std::int64_t page = at(b).pages[static_cast<std::size_t>(token / kPageTokens)];
  std::byte* start = keys ? pool.k + page * pool.k_page + head * pool.k_head
                          : pool.v + page * pool.v_page + head * pool.v_head;
  return start + token % kPageTokens * row_bytes_;
}

std::vector<double> Sequences::load_head(std::int64_t b, std::int64_t head, bool keys) const {
  const std::int64_t tokens = position(b, end(b)), d = cache_->dims[1];
  std::vector<double> values(static_cast<std::size_t>(tokens * d));
  std::vector<float> row(static_cast<std::size_t>(d));
  for (std::int64_t t = 0; t < tokens; ++t) {
    decoder(cache_->dtype)(token(b, t, head, keys), row.data(), d);
    std::copy(row.begin(), row.end(), values.begin() + t * d);
  }
  return values;
}

}  // namespace rlx::paged
