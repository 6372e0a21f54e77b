// Attention over the paged cache (ops/attention.h; kernels.md, 2.7). What the rows of
// attention.simd.cpp share that depends on no instruction set: the sizes of the scratch areas,
// which the kernel divides in the same way.
#pragma once

#include <cstdint>

#include "device/kernel.h"

namespace rlx::cpu {

bool accepts_attention_f32(const KernelQuery&);
bool accepts_attention_f16(const KernelQuery&);
bool accepts_attention_bf16(const KernelQuery&);
bool accepts_attention_q8_0(const KernelQuery&);
ScratchNeed attention_scratch(const ScratchQuery&);

}  // namespace rlx::cpu
