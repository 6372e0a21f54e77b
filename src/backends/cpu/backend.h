// The CPU backend.
#pragma once

#include "device/backend.h"

namespace rlx::cpu {

/// The one CPU backend of the process, at the level that RLX_ISA or the machine says (kernels.h,
/// selected_isa: its errors).
const Backend& backend();

}  // namespace rlx::cpu
