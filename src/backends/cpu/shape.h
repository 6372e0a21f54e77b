// Ops that move values (ops/shape_ops.h): copies between strided views, so one row of the table for all levels.
#pragma once

#include "backends/cpu/table.h"

namespace rlx::cpu {

KernelTable shape_kernels();

}  // namespace rlx::cpu
