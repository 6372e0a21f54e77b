// Kernels of mixture models beside their products, and of sampling.
#pragma once

#include "backends/cpu/table.h"

namespace rlx::cpu {

KernelTable route_kernels();   ///< moe_route, sample
namespace baseline {
KernelTable moe_kernels();  ///< expert_sum
}
namespace avx2 {
KernelTable moe_kernels();
}
namespace avx512 {
KernelTable moe_kernels();
}

}  // namespace rlx::cpu
