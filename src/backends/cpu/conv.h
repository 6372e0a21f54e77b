// Kernels over spatial axes and of Fourier transforms: convolutions, pooling, FFT, and the changes of representation
// that have no unit of their own.
#pragma once

#include "backends/cpu/table.h"

namespace rlx::cpu {

KernelTable codec_kernels();  ///< quantize, dequantize

#define RLX_SPATIAL_TABLES(level)          \
  namespace level {                        \
  KernelTable conv_kernels();              \
  KernelTable pool_kernels();              \
  KernelTable fft_kernels();               \
  KernelTable fake_quantize_kernels();     \
  }
RLX_SPATIAL_TABLES(baseline)
RLX_SPATIAL_TABLES(avx2)
RLX_SPATIAL_TABLES(avx512)
#undef RLX_SPATIAL_TABLES

}  // namespace rlx::cpu
