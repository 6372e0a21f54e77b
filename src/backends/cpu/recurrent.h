// Convolutions and scans that carry a state (ops/recurrent.h).
#pragma once

#include "device/kernel.h"

namespace rlx::cpu {

inline constexpr int kMaxTaps = 32;  ///< rows that a convolution reads for one result

bool accepts_causal_conv1d(const KernelQuery&);
bool accepts_recurrent(const KernelQuery&);        ///< of the scans: what infer() lets through
ScratchNeed ssd_scan_scratch(const ScratchQuery&);  ///< two floats a row
ScratchNeed gated_delta_scratch(const ScratchQuery&);  ///< four floats a row

}  // namespace rlx::cpu
