#include "backends/cpu/batched_matmul.h"

#include "ops/product.h"

namespace rlx::cpu {

bool accepts_batched_matmul(const KernelQuery& q) {
  const auto plain_f32 = [](const Shape& s) {
    return s.kind == ShapeKind::tensor && s.layout == Layout::plain && s.dtype == DType::f32;
  };
  return plain_f32(q.in[0]) && plain_f32(q.in[1]) && !static_cast<const BatchedMatmul*>(q.op)->transpose_a;
}

}  // namespace rlx::cpu
