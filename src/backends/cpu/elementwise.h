// Element-wise ops of f32 and casts between plain floats (ops/elementwise.h).
#pragma once

#include "device/kernel.h"

namespace rlx::cpu {

bool accepts_elementwise(const KernelQuery&);  ///< all operands plain f32
bool accepts_cast(const KernelQuery&);         ///< between f32, f16 and bf16

}  // namespace rlx::cpu
