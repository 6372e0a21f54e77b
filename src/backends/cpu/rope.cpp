#include "backends/cpu/rope.h"

#include "backends/cpu/kv.h"
#include "backends/cpu/kv_layout.h"
#include "ops/attention.h"

namespace rlx::cpu {

bool accepts_rope(const KernelQuery& q) {
  return q.in[0].kind == ShapeKind::tensor && q.in[0].dtype == DType::f32 && q.in[1].dtype == DType::f32;
}

bool accepts_rope_append(const KernelQuery& q) {
  const Shape& cache = q.in[0];
  if (cache.kind != ShapeKind::kv || cache.layout != Layout::p16) return false;
  const auto head_dim = cache.dim(1).constant();
  return head_dim && kv_supported(cache.dtype, *head_dim) && q.in[1].dtype == DType::f32 &&
      q.in[2].dtype == DType::f32 &&
         q.in[3].dtype == DType::f32;
}

// Two tables of rotary_dim floats, each rounded up so that vectors of 16 may read beyond the end.
ScratchNeed rope_scratch(const ScratchQuery& q) {
  const auto& op = *static_cast<const Rope*>(q.op);
  return {.per_worker = 2 * round_up(op.rotary_dim + 16, 16) * 4};
}

ScratchNeed rope_append_scratch(const ScratchQuery& q) {
  const auto& op = *static_cast<const RopeAppend*>(q.op);
  return {.per_worker = 2 * round_up(op.rotary_dim + 16, 16) * 4 + round_up(op.head_dim, 16) * 4};
}

}  // namespace rlx::cpu
