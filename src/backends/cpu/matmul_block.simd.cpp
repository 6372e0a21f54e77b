// int8 tokens times the types with groups of 64: see matmul_int.h.
#if !defined(RLX_ISA_avx512_bf16)
#include "backends/cpu/matmul_int.h"

namespace rlx::cpu::RLX_ISA_LEVEL {

const ProductKernels* block_kernels(DType w) {
  switch (w) {
    case DType::q4_0:
      return &kIntProduct<DType::q4_0>;
    case DType::q4_1:
      return &kIntProduct<DType::q4_1>;
    case DType::q5_0:
      return &kIntProduct<DType::q5_0>;
    case DType::q5_1:
      return &kIntProduct<DType::q5_1>;
    case DType::q8_0:
      return &kIntProduct<DType::q8_0>;
    case DType::iq4_nl:
      return &kIntProduct<DType::iq4_nl>;
    case DType::mxfp4:
      return &kIntProduct<DType::mxfp4>;
    default:
      return nullptr;
  }
}

}  // namespace rlx::cpu::RLX_ISA_LEVEL
#endif
