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

constexpr Kernel kTable[] = {
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
