// Rotary positions, alone and with the norm of q and k and the append to the cache (ops/attention.h).
#pragma once

#include "device/kernel.h"

namespace rlx::cpu {

bool accepts_rope(const KernelQuery&);
bool accepts_rope_append(const KernelQuery&);
ScratchNeed rope_scratch(const ScratchQuery&);         ///< cos and sin of a row
ScratchNeed rope_append_scratch(const ScratchQuery&);  ///< the same and one head

}  // namespace rlx::cpu
