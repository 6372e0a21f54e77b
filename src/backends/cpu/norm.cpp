#include "backends/cpu/norm.h"

namespace rlx::cpu {
namespace {

bool plain(const Shape& s, DType d) {
  return s.kind == ShapeKind::tensor && s.layout == Layout::plain && s.dtype == d;
}
bool plain_f32(const Shape& s) { return plain(s, DType::f32); }
bool xq8(const Shape& s) { return plain(s, DType::xq8); }

}  // namespace

bool accepts_rms_norm(const KernelQuery& q) { return plain_f32(q.in[0]) && plain_f32(q.in[1]) && plain_f32(q.out[0]); }
bool accepts_rms_norm_quantize(const KernelQuery& q) {
  return plain_f32(q.in[0]) && plain_f32(q.in[1]) && xq8(q.out[0]);
}
bool accepts_quantize_rows(const KernelQuery& q) { return plain_f32(q.in[0]) && xq8(q.out[0]); }

}  // namespace rlx::cpu
