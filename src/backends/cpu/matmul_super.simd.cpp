// int8 tokens times the types with groups of 256: see matmul_int.h.
#if !defined(RLX_ISA_avx512_bf16)
#include "backends/cpu/matmul_int.h"

namespace rlx::cpu::RLX_ISA_LEVEL {

const ProductKernels* super_kernels(DType w) {
  switch (panel_form(w)) {
    case DType::q2_K:
      return &kIntProduct<DType::q2_K>;
    case DType::q3_K:
      return &kIntProduct<DType::q3_K>;
    case DType::q4_K:
      return &kIntProduct<DType::q4_K>;
    case DType::q5_K:
      return &kIntProduct<DType::q5_K>;
    case DType::q6_K:
      return &kIntProduct<DType::q6_K>;
    case DType::tq2_0:
      return &kIntProduct<DType::tq2_0>;
    case DType::iq2_xs:
      return &kIntProduct<DType::iq2_xs>;
    case DType::iq4_xs:
      return &kIntProduct<DType::iq4_xs>;
    default:
      return nullptr;
  }
}

}  // namespace rlx::cpu::RLX_ISA_LEVEL
#endif
