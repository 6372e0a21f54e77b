// The products of the CPU backend: rows for Linear and GatedLinear, every storage type of weights
// in panels (panels.h) times int8, f32 and bf16 activations.
#pragma once

#include "backends/cpu/table.h"
#include "ir/kernel_args.h"

namespace rlx::cpu {

/// The functions of one level (matmul_drive.simd.cpp). They take any pair of types that the level's
/// rows accept.
#define RLX_MATMUL_LEVEL(level)                                    \
  namespace level {                                                \
  void linear(const void* op, const KernelArgs& a) noexcept;       \
  void gated_linear(const void* op, const KernelArgs& a) noexcept; \
  KernelTable matmul_kernels();                                    \
  }
RLX_MATMUL_LEVEL(baseline)
RLX_MATMUL_LEVEL(avx2)
RLX_MATMUL_LEVEL(avx512)
RLX_MATMUL_LEVEL(avx512_bf16)
#undef RLX_MATMUL_LEVEL

}  // namespace rlx::cpu
