// Run-time views of operands from their symbolic shapes.
#pragma once

#include "ir/kernel_args.h"
#include "tensor/shape.h"

namespace rlx {

/// Contiguous view of a shape under a binding; data is not set. A recurrent state has a first dim
/// for the slots, 0 until the session sets it. Errors (shape) as Dim::evaluate.
TensorView make_view(const Shape& shape, const DimBinding& binding);
/// Bytes of a plain contiguous tensor under a binding. Errors: shape; limit when the product leaves
/// 64 bits; a state has none (0).
std::int64_t view_bytes(const Shape& shape, const DimBinding& binding);

}  // namespace rlx
