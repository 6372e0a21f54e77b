// Tiles of int8 tokens times unpacked panels of integers: see matmul_int.h. Types whose unpacked
// blocks look alike share them.
#if !defined(RLX_ISA_avx512_bf16)
#include "backends/cpu/matmul_int.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

// Tokens of a tile: as many as the registers hold beside a line (avx2: 4 x 2 sums of 16; AVX-512: 4
// x 2 panels).
template <DType D>
constexpr TileKernels make() {
  TileKernels k;
  k.tile[0][1] = unpacked_tile<D, 1, 1>;
  k.tile[0][2] = unpacked_tile<D, 1, 2>;
#if defined(RLX_ISA_baseline)
  k.tokens = 2;
#else
  k.tile[0][4] = unpacked_tile<D, 1, 4>;
  k.tokens = 4;
#endif
#if defined(RLX_WIDE)
  k.tile[1][1] = unpacked_tile<D, 2, 1>;
  k.tile[1][2] = unpacked_tile<D, 2, 2>;
  k.tile[1][4] = unpacked_tile<D, 2, 4>;
#endif
  return k;
}
template <DType D>
constexpr TileKernels kTiles = make<D>();

}  // namespace

const TileKernels* int_tiles(DType w) {
  switch (panel_form(w)) {
    case DType::q4_0:
    case DType::tq2_0:  // two bits fit the sums of four
      return &kTiles<DType::q4_0>;
    case DType::q4_1:
    case DType::q4_K:
      return &kTiles<DType::q4_1>;
    case DType::q5_0:
      return &kTiles<DType::q5_0>;
    case DType::q5_1:
    case DType::q5_K:
      return &kTiles<DType::q5_1>;
    case DType::q8_0:
    case DType::iq4_nl:
    case DType::iq4_xs:
    case DType::mxfp4:
      return &kTiles<DType::q8_0>;
    case DType::q2_K:
      return &kTiles<DType::q2_K>;
    case DType::q3_K:  // three bits fit the sums of six
    case DType::q6_K:
      return &kTiles<DType::q6_K>;
    case DType::iq2_xs:
      return &kTiles<DType::iq2_xs>;
    default:
      return nullptr;
  }
}

}  // namespace rlx::cpu::RLX_ISA_LEVEL
#endif
