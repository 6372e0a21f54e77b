// Kernels over spatial axes and of Fourier transforms: convolutions, pooling, FFT, and the changes of representation
// that have no unit of their own.
#pragma once

#include "backends/cpu/table.h"

namespace rlx::cpu {

KernelTable codec_kernels();  ///< quantize, dequantize

#define RLX_SPATIAL_TABLES(level)          \
  namespace level {                        \
  KernelTable conv_kernels();              \
  KernelTable plane_conv_kernels();        \
  KernelTable winograd_conv_kernels();     \
  KernelTable pool_kernels();              \
  KernelTable fft_kernels();               \
  KernelTable fake_quantize_kernels();     \
  }
RLX_SPATIAL_TABLES(baseline)
RLX_SPATIAL_TABLES(avx2)
RLX_SPATIAL_TABLES(avx512)
#undef RLX_SPATIAL_TABLES
namespace avx512_bf16 {
KernelTable plane_conv_kernels();
}

/// Whether the kernels of PlaneConv take x of this dtype and panels of the same: those of pairs of bf16 ask for an even
/// number of channels, so that a pair lies in one tap.
bool accepts_plane_conv(const KernelQuery& q, DType dtype);
bool accepts_winograd_conv(const KernelQuery& q);  ///< u in panels

}  // namespace rlx::cpu
