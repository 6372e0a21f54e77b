// What each unit of kernels gives to the list of the backend (kernels.cpp), one function per unit
// and level.
#pragma once

#include "device/kernel.h"

namespace rlx::cpu {

struct KernelTable {
  const Kernel* rows = nullptr;
  int count = 0;
};

}  // namespace rlx::cpu
