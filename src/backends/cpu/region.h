// The tile interpreter: runs regions (ops/region.h).
#pragma once

#include "backends/cpu/table.h"
#include "ops/region_code.h"

namespace rlx::cpu {

/// The program behind the attributes of a Region.
const RegionCode& code_of_region(const void* op);
bool accepts_region(const KernelQuery&);
ScratchNeed region_scratch(const ScratchQuery&);

/// Bytes of a worker: registers, row buffers of n values, columns of 16 lanes.
constexpr std::int64_t region_row_floats(std::int64_t n) { return (n + 15) / 16 * 16; }

}  // namespace rlx::cpu
