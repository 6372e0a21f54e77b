// Attention over the paged cache (ops/attention.h; kernels.md, 2.7). What the rows of
// attention.simd.cpp share that depends on no instruction set: the sizes of the scratch areas,
// which the kernel divides in the same way.
#pragma once

#include <cstdint>

#include "backends/cpu/table.h"
#include "ir/kernel_args.h"

namespace rlx::cpu {

bool accepts_attention_f32(const KernelQuery&);
bool accepts_attention_f16(const KernelQuery&);
bool accepts_attention_bf16(const KernelQuery&);
bool accepts_attention_q8_0(const KernelQuery&);
ScratchNeed attention_scratch(const ScratchQuery&);

// On tile registers (attention_amx.avx512_bf16.cpp); few rows go to the rows of the vector units.
bool accepts_attention_amx_bf16(const KernelQuery&);
bool accepts_attention_amx_q8_0(const KernelQuery&);
ScratchNeed attention_amx_scratch(const ScratchQuery&);
namespace avx512 {
void attention_q8_0(const void* op, const KernelArgs& a) noexcept;
}
namespace avx512_bf16 {
void attention_bf16(const void* op, const KernelArgs& a) noexcept;
KernelTable amx_attention_kernels();
}

}  // namespace rlx::cpu
