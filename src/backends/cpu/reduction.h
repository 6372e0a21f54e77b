// Layer norm and softmax (ops/reduction.h).
#pragma once

#include "device/kernel.h"

namespace rlx::cpu {

bool accepts_layer_norm(const KernelQuery&);  ///< f32, plain
bool accepts_softmax(const KernelQuery&);     ///< f32, along the last axis

}  // namespace rlx::cpu
