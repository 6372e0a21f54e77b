#include "backends/cpu/elementwise.h"

#include <algorithm>

namespace rlx::cpu {
namespace {

bool plain(const Shape& s) { return s.kind == ShapeKind::tensor && s.layout == Layout::plain; }
bool plain_f32(const Shape& s) { return plain(s) && s.dtype == DType::f32; }
bool castable(const Shape& s) {
  return plain(s) && (s.dtype == DType::f32 || s.dtype == DType::f16 || s.dtype == DType::bf16);
}

}  // namespace

bool accepts_elementwise(const KernelQuery& q) {
  return std::all_of(q.in.begin(), q.in.end(), plain_f32) && std::all_of(q.out.begin(), q.out.end(), plain_f32);
}
bool accepts_cast(const KernelQuery& q) { return castable(q.in[0]) && castable(q.out[0]); }

}  // namespace rlx::cpu
