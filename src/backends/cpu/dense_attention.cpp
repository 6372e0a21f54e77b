#include "backends/cpu/dense_attention.h"

#include <algorithm>
#include <iterator>

#include "ops/dense_attention.h"

namespace rlx::cpu {
namespace {

bool plain(const Shape& s) { return s.kind == ShapeKind::tensor && s.layout == Layout::plain; }
bool plain_f32(const Shape& s) { return plain(s) && s.dtype == DType::f32; }

bool accepts_relative_bias(const KernelQuery& q) { return plain_f32(q.in[0]) && plain_f32(q.out[0]); }

// table: [buckets, heads]; y: [heads, 2 * max_distance + 1]
void relative_bias(const RelativeBias& op, const KernelArgs& a) noexcept {
  const TensorView &table = a.in[0], &y = a.out[0];
  const std::int64_t heads = y.dims[0], most = op.max_distance;
  const std::int64_t end = heads * (a.thread + 1) / a.threads;
  for (std::int64_t h = heads * a.thread / a.threads; h < end; ++h)
    for (std::int64_t d = -most; d <= most; ++d)
      y.row<float>(h)[d + most] = table.row<const float>(op.bucket(d, table.dims[0]))[h];
}

bool accepts_attention_mask(const KernelQuery& q) {
  const auto& op = *static_cast<const AttentionMask*>(q.op);
  return plain_f32(q.in[0]) && plain_f32(q.in[1]) && op.first.is_constant() && op.second.is_constant();
}

// The half-open rows of sequence s, kept inside the tensor whatever the starts say.
struct SequenceRows {
  std::int64_t begin, end;
};
SequenceRows rows_of_sequence(const TensorView& starts, std::int64_t s, std::int64_t rows) noexcept {
  const auto* at = static_cast<const std::int32_t*>(starts.data);
  const std::int64_t begin = std::clamp<std::int64_t>(at[s], 0, rows);
  return {begin, std::clamp<std::int64_t>(at[s + 1], begin, rows)};
}

// q: [q_rows, *]; k: [kv_rows, *]; mask: [q_rows, kv_rows]; seen: [q_rows, 1]; index: i32 [q_rows, kv_rows]
void attention_mask(const AttentionMask& op, const KernelArgs& a) noexcept {
  const std::int64_t rows = a.in[0].dims[0], keys = a.in[1].dims[0], batch = a.in[2].dims[0] - 1;
  const bool indexed = op.bias != AttentionBias::none;
  const std::int64_t begin = rows * a.thread / a.threads, end = rows * (a.thread + 1) / a.threads;
  for (std::int64_t r = begin; r < end; ++r) {
    std::fill_n(a.out[0].row<float>(r), keys, AttentionMask::kHidden);
    a.out[1].row<float>(r)[0] = 0.0f;
    if (indexed) std::fill_n(a.out[2].row<std::int32_t>(r), keys, 0);
  }
  for (std::int64_t s = 0; s < batch; ++s) {
    const SequenceRows queries = rows_of_sequence(a.in[2], s, rows), own = rows_of_sequence(a.in[3], s, keys);
    const std::int64_t count = own.end - own.begin, shift = op.causal ? count - (queries.end - queries.begin) : 0;
    for (std::int64_t r = std::max(begin, queries.begin); r < std::min(end, queries.end); ++r) {
      const std::int64_t position = r - queries.begin + shift;
      const AttentionMask::Keys seen = op.seen_from(position, count);
      for (std::int64_t key = seen.begin; key < seen.end; ++key) {
        a.out[0].row<float>(r)[own.begin + key] = 0.0f;
        if (indexed)
          a.out[2].row<std::int32_t>(r)[own.begin + key] = static_cast<std::int32_t>(op.place_of(position, key));
      }
      if (seen.begin < seen.end) a.out[1].row<float>(r)[0] = 1.0f;
    }
  }
}

constexpr Kernel kTable[] = {
    kernel<AttentionMask, attention_mask>("attention_mask_f32", Isa::baseline, accepts_attention_mask),
    kernel<RelativeBias, relative_bias>("relative_bias_f32", Isa::baseline, accepts_relative_bias),
};

}  // namespace

bool accepts_dense_attention(const KernelQuery& q) {
  const bool floats = plain_f32(q.in[0]) && plain_f32(q.in[1]) && plain_f32(q.in[2]) && plain_f32(q.out[0]);
  // The scratch areas are sized by the heads.
  return floats && q.in[0].dim(1).is_constant() && q.in[2].dim(1).is_constant();
}
bool accepts_pool_sequences(const KernelQuery& q) { return plain_f32(q.in[0]) && plain_f32(q.out[0]); }

ScratchNeed dense_attention_scratch(const ScratchQuery& q) {
  const auto& op = *static_cast<const DenseAttention*>(q.op);
  ScratchNeed need;
  need.per_worker = dense_worker_floats(q.in[0].dims[1] / op.heads, q.in[2].dims[1] / op.kv_heads) * 4;
  return need;
}

KernelTable relative_bias_kernels() { return {kTable, static_cast<int>(std::size(kTable))}; }

}  // namespace rlx::cpu
