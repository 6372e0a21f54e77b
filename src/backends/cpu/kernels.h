// The kernels of this backend: one list, made of the tables of its units (table.h).
#pragma once

#include <span>

#include "base/cpu_features.h"
#include "device/kernel.h"

namespace rlx::cpu {

/// All rows of all levels, the highest level first, so that the first row that fits is the best one.
std::span<const Kernel> cpu_kernels();

/// The highest level whose rows run with these features.
Isa isa_of(const CpuFeatures& features);

/// The level to use: that of the machine, or a lower one that `forced` (the value of RLX_ISA,
/// nullptr or empty: none) names. "avx512" allows avx512_bf16 too where the machine has it, not
/// amx. Errors: invalid_argument for an unknown value (the message lists the valid ones), device
/// for a level that the machine lacks.
Isa choose_isa(const CpuFeatures& features, const char* forced);

/// choose_isa of this machine and the environment.
Isa selected_isa();

}  // namespace rlx::cpu
