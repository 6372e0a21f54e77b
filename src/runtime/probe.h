// What the machine can do right now, measured in this process: the figures that speeds are ratios
// of (kernels.md, 1.2).
#pragma once

#include <cstdint>

#include "base/workers.h"

namespace rlx {

struct ProbeResult {
  double gbps = 0;  ///< 10^9 bytes read from memory a second: four streams a thread over a buffer
                    ///< larger than the caches
  double gops = 0;  ///< 10^9 int8 operations a second (a multiply-add is two), operands in
                    ///< registers, best instructions of the level
};

/// Takes about a fifth of a second and 256 MiB, or what a quarter of the free memory allows.
/// Errors: memory.
ProbeResult probe(Workers& workers);

}  // namespace rlx
