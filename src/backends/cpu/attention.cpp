#include "backends/cpu/attention.h"

#include <algorithm>

#include "backends/cpu/attention_layout.h"
#include "backends/cpu/kv.h"
#include "ops/attention.h"

namespace rlx::cpu {
namespace {

bool accepts(const KernelQuery& q, DType dtype) {
  const Shape& cache = q.in[1];
  if (cache.kind != ShapeKind::kv || cache.layout != Layout::p16 || cache.dtype != dtype) return false;
  const auto head_dim = cache.dim(1).constant();
  return head_dim && kv_supported(dtype, *head_dim) && q.in[0].dtype == DType::f32 && q.out[0].dtype == DType::f32;
}

// Steps of tiles are 32 lanes. A cache of floats with more bits keeps them: it stays with the vector units.
bool accepts_amx(const KernelQuery& q, DType dtype) {
  return accepts(q, dtype) && *q.in[1].dim(1).constant() % 32 == 0 && q.in[0].layout == Layout::plain &&
         q.out[0].layout == Layout::plain;
}

}  // namespace

bool accepts_attention_f32(const KernelQuery& q) { return accepts(q, DType::f32); }
bool accepts_attention_f16(const KernelQuery& q) { return accepts(q, DType::f16); }
bool accepts_attention_bf16(const KernelQuery& q) { return accepts(q, DType::bf16); }
bool accepts_attention_q8_0(const KernelQuery& q) { return accepts(q, DType::q8_0); }
bool accepts_attention_amx_bf16(const KernelQuery& q) { return accepts_amx(q, DType::bf16); }
bool accepts_attention_amx_q8_0(const KernelQuery& q) { return accepts_amx(q, DType::q8_0); }

ScratchNeed attention_scratch(const ScratchQuery& q) {
  const auto& op = *static_cast<const Attention*>(q.op);
  const std::int64_t rows = std::min<std::int64_t>(q.in[0].dims[0], kSplitModeTokens);
  const std::int64_t head_dim = q.in[1].dims[1];
  ScratchNeed need;
  need.per_worker = attention_worker_floats(head_dim) * 4;
  // A job of split mode has at least one row, so jobs are at most rows * heads; without a known
  // context the cap is taken.
  need.shared_zeroed = counter_bytes(std::int64_t{kSplitModeTokens} * op.heads);
  const std::int64_t splits = q.max_context / kSplitTokens + 2;
  const std::int64_t partials = rows * op.heads * splits * partial_floats(1, head_dim) * 4;
  need.shared = need.shared_zeroed + (q.max_context > 0 ? std::min(partials, kMaxPartialBytes) : kMaxPartialBytes);
  return need;
}
ScratchNeed attention_amx_scratch(const ScratchQuery& q) {
  ScratchNeed need = attention_scratch(q);
  need.per_worker = std::max(need.per_worker, attention_amx_bytes(q.in[1].dims[1]));
  return need;
}

}  // namespace rlx::cpu
