#include "device/view.h"

#include "base/checked.h"

namespace rlx {
namespace {

// Slots in front of the dims of one slot.
TensorView recurrent_view(TensorView v) {
  std::int64_t bytes = info(v.dtype).block_bytes;
  for (int i = v.rank; i > 0; --i) {
    v.dims[i] = v.dims[i - 1];
    v.strides[i] = bytes;
    bytes = require(checked_mul(bytes, v.dims[i]), "recurrent state");
  }
  v.dims[0] = 0;
  v.strides[0] = bytes;
  ++v.rank;
  return v;
}

}  // namespace

TensorView make_view(const Shape& shape, const DimBinding& binding) {
  static_assert(kViewRank == kMaxRank);
  TensorView v;
  v.dtype = shape.dtype;
  v.layout = shape.layout;
  v.rank = static_cast<std::int8_t>(shape.rank());
  for (int i = 0; i < shape.rank(); ++i) v.dims[i] = shape.dim(i).evaluate(binding);
  if (shape.kind == ShapeKind::recurrent) return recurrent_view(v);
  if (shape.rank() == 0 || shape.is_state()) return v;
  const DTypeInfo& t = info(shape.dtype);
  const int last = shape.rank() - 1;
  v.strides[last] = t.block_elements == 1 ? t.block_bytes : 0;
  if (last > 0) {
    // Packed layouts have no row stride; their kernels know the panel's.
    v.strides[last - 1] = shape.layout == Layout::plain && v.dims[last] % t.block_elements == 0
                              ? row_bytes(shape.dtype, v.dims[last])
                              : 0;
    for (int i = last - 2; i >= 0; --i)
      v.strides[i] = require(checked_mul(v.strides[i + 1], v.dims[i + 1]), "tensor");
  }
  return v;
}

std::int64_t view_bytes(const Shape& shape, const DimBinding& binding) {
  if (shape.is_state()) return 0;
  const DTypeInfo& t = info(shape.dtype);
  std::int64_t bytes = t.block_bytes;
  for (int i = 0; i < shape.rank(); ++i) {
    std::int64_t n = shape.dim(i).evaluate(binding);
    if (i == shape.rank() - 1) {
      if (n % t.block_elements != 0)
        fail(ErrorCode::shape, "{}: rows of {} values are no multiple of {}", shape.text(), n,
             t.block_elements);
      n /= t.block_elements;
    }
    bytes = require(checked_mul(bytes, n), "tensor");
  }
  return bytes;
}

}  // namespace rlx
