// Ops of plain arrays with any strides and broadcasts (ops/arithmetic.h, ops/reduction.h, ops/shape_ops.h).
#pragma once

#include "device/kernel.h"
#include "ops/shape_ops.h"

namespace rlx::cpu {

bool accepts_plain_f32(const KernelQuery&);    ///< operands and results plain f32
bool accepts_unary(const KernelQuery&);        ///< plain f32, and a function that has a form on sixteen lanes
bool accepts_compare(const KernelQuery&);      ///< plain f32 or i32
bool accepts_where(const KernelQuery&);        ///< plain f32 values, a condition of boolean or i32
bool accepts_reduce(const KernelQuery&);       ///< plain f32, sum or mean
bool accepts_log_softmax(const KernelQuery&);  ///< plain f32 along the last axis
bool accepts_moved(const KernelQuery&);        ///< plain, elements of four bytes

/// The view that reads x's axis op.axes[i] as its axis i.
TensorView transposed_view(const Transpose& op, const TensorView& x);

}  // namespace rlx::cpu
