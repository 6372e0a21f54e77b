#include "backends/cpu/general.h"

#include <algorithm>

#include "ops/arithmetic.h"
#include "ops/reduction.h"

namespace rlx::cpu {
namespace {

bool plain(const Shape& s) { return s.kind == ShapeKind::tensor && s.layout == Layout::plain; }
bool plain_f32(const Shape& s) { return plain(s) && s.dtype == DType::f32; }

}  // namespace

bool accepts_plain_f32(const KernelQuery& q) {
  return std::all_of(q.in.begin(), q.in.end(), plain_f32) && std::all_of(q.out.begin(), q.out.end(), plain_f32);
}

bool accepts_unary(const KernelQuery& q) {
  switch (static_cast<const Unary*>(q.op)->fn) {
    case UnaryFunction::neg:
    case UnaryFunction::exp:
    case UnaryFunction::sqrt:
    case UnaryFunction::rsqrt:
    case UnaryFunction::reciprocal:
    case UnaryFunction::abs:
    case UnaryFunction::tanh:
    case UnaryFunction::erf:
    case UnaryFunction::sigmoid:
      return accepts_plain_f32(q);
    default:
      return false;
  }
}

bool accepts_compare(const KernelQuery& q) {
  const DType d = q.in[0].dtype;
  return (d == DType::f32 || d == DType::i32) && std::all_of(q.in.begin(), q.in.end(), plain) && plain(q.out[0]);
}

bool accepts_where(const KernelQuery& q) {
  const DType d = q.in[0].dtype;
  return plain(q.in[0]) && (d == DType::boolean || d == DType::i32) && plain_f32(q.in[1]) && plain_f32(q.in[2]);
}

bool accepts_reduce(const KernelQuery& q) {
  const Reduction kind = static_cast<const Reduce*>(q.op)->kind;
  return (kind == Reduction::sum || kind == Reduction::mean) && accepts_plain_f32(q);
}

bool accepts_log_softmax(const KernelQuery& q) {
  const int axis = static_cast<const LogSoftmax*>(q.op)->axis;
  return (axis == -1 || axis == q.in[0].rank() - 1) && accepts_plain_f32(q);
}

bool accepts_moved(const KernelQuery& q) {
  return plain(q.in[0]) && info(q.in[0].dtype).block_bytes == 4 && info(q.in[0].dtype).block_elements == 1;
}

TensorView transposed_view(const Transpose& op, const TensorView& x) {
  TensorView y = x;
  for (int i = 0; i < x.rank; ++i) {
    const int given = op.axes.size() == 0 ? x.rank - 1 - i : op.axes[i], axis = given < 0 ? given + x.rank : given;
    y.dims[i] = x.dims[axis];
    y.strides[i] = x.strides[axis];
  }
  return y;
}

}  // namespace rlx::cpu
