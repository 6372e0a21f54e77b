// Rows by index (ops/index.h): gathers of a few rows, so one row of the table for all levels.
#pragma once

#include "backends/cpu/table.h"

namespace rlx::cpu {

KernelTable index_kernels();

}  // namespace rlx::cpu
