// Layer norm, softmax and functions of one value (ops/reduction.h, ops/arithmetic.h).
#pragma once

#include "device/kernel.h"

namespace rlx::cpu {

bool accepts_layer_norm(const KernelQuery&);  ///< f32, plain
bool accepts_softmax(const KernelQuery&);     ///< f32, along the last axis
bool accepts_unary(const KernelQuery&);       ///< f32; tanh, erf, exp, sqrt, abs, neg, sigmoid

}  // namespace rlx::cpu
