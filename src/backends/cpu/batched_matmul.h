// Products of two activations (ops/product.h).
#pragma once

#include "device/kernel.h"

namespace rlx::cpu {

bool accepts_batched_matmul(const KernelQuery&);  ///< f32, plain; a as it lies

}  // namespace rlx::cpu
