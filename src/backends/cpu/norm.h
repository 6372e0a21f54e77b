// RMS norm and its fusion with the quantisation of activations (ops/norm.h, ops/quant.h).
#pragma once

#include "device/kernel.h"

namespace rlx::cpu {

bool accepts_rms_norm(const KernelQuery&);           ///< f32, plain
bool accepts_rms_norm_quantize(const KernelQuery&);  ///< f32 to xq8
bool accepts_quantize_rows(const KernelQuery&);      ///< f32 to xq8

}  // namespace rlx::cpu
