#include "backends/cpu/reduction.h"

#include <algorithm>

#include "ops/arithmetic.h"
#include "ops/reduction.h"

namespace rlx::cpu {
namespace {

bool plain_f32(const Shape& s) {
  return s.kind == ShapeKind::tensor && s.layout == Layout::plain && s.dtype == DType::f32;
}
bool all_plain_f32(const KernelQuery& q) {
  return std::all_of(q.in.begin(), q.in.end(), plain_f32) && std::all_of(q.out.begin(), q.out.end(), plain_f32);
}

}  // namespace

bool accepts_layer_norm(const KernelQuery& q) { return all_plain_f32(q); }

bool accepts_softmax(const KernelQuery& q) {
  const std::int32_t axis = static_cast<const Softmax*>(q.op)->axis;
  return all_plain_f32(q) && q.in[0].rank() > 0 && (axis == -1 || axis == q.in[0].rank() - 1);
}

}  // namespace rlx::cpu
