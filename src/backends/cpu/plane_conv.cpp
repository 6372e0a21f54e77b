#include "backends/cpu/conv.h"

namespace rlx::cpu {

bool accepts_plane_conv(const KernelQuery& q, DType dtype) {
  const Shape &x = q.in[0], &w = q.in[1];
  if (x.dtype != dtype || x.layout != Layout::plain || w.dtype != dtype || w.layout != Layout::p16) return false;
  const auto channels = x.dim(3).constant();
  return dtype == DType::f32 || (channels && *channels % 2 == 0);
}

bool accepts_winograd_conv(const KernelQuery& q) {
  return q.in[0].layout == Layout::plain && q.in[1].layout == Layout::p16 && q.in[0].dim(3).is_constant();
}

}  // namespace rlx::cpu
