// f32 tokens (and bf16 ones, widened) times every storage type: see matmul_float.h.
#if !defined(RLX_ISA_avx512_bf16)
#include "backends/cpu/matmul_float.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

// Tokens of a tile: avx2 6 x 2 sums of 16 registers; AVX-512 8 x 2 of 32.
#if defined(RLX_WIDE)
constexpr int kFloatTokens = 8;
#elif defined(RLX_ISA_avx2)
constexpr int kFloatTokens = 6;
#else
constexpr int kFloatTokens = 2;
#endif

constexpr TileKernels make_tiles() {
  TileKernels k;
  k.tile[0][1] = float_tile<DType::f32, 1, 1>;
  k.tile[0][2] = float_tile<DType::f32, 1, 2>;
  k.tile[0][4] = float_tile<DType::f32, 1, 4>;
  k.tile[0][kFloatTokens] = float_tile<DType::f32, 1, kFloatTokens>;
#if defined(RLX_WIDE)
  k.tile[1][1] = float_tile<DType::f32, 2, 1>;
  k.tile[1][2] = float_tile<DType::f32, 2, 2>;
  k.tile[1][4] = float_tile<DType::f32, 2, 4>;
  k.tile[1][kFloatTokens] = float_tile<DType::f32, 2, kFloatTokens>;
#endif
  k.tokens = kFloatTokens;
  return k;
}
constexpr TileKernels kTiles = make_tiles();

template <DType D>
constexpr ProductKernels make() {
  ProductKernels k;
  if constexpr (kPanel<D>.group == 0) {
    k.direct[1] = dense_direct<D, 1>;
    k.direct[2] = dense_direct<D, 2>;
    k.direct[4] = dense_direct<D, 4>;
  }
#if !defined(RLX_ISA_baseline)
  // More tokens: unpacking pays at once. The baseline unpacks for one token too: as fast (13 tok/s of SmolLM2 either
  // way), and these bodies are a third of the unit's compile time (17.5 s, without them 11.2 s).
  if constexpr (kPanel<D>.group != 0) k.direct[1] = widened_direct<D>;
#endif
  if constexpr (D != DType::f32) k.unpack = widen_unpack<D>;
  return k;
}

template <DType D>
constexpr ProductKernels kProduct = make<D>();

}  // namespace

const TileKernels& float_tiles() { return kTiles; }

const ProductKernels* float_kernels(DType w) {
  switch (panel_form(w)) {
    case DType::f32:
      return &kProduct<DType::f32>;
    case DType::f16:
      return &kProduct<DType::f16>;
    case DType::bf16:
      return &kProduct<DType::bf16>;
    case DType::q4_0:
      return &kProduct<DType::q4_0>;
    case DType::q4_1:
      return &kProduct<DType::q4_1>;
    case DType::q5_0:
      return &kProduct<DType::q5_0>;
    case DType::q5_1:
      return &kProduct<DType::q5_1>;
    case DType::q8_0:
      return &kProduct<DType::q8_0>;
    case DType::iq4_nl:
      return &kProduct<DType::iq4_nl>;
    case DType::q2_K:
      return &kProduct<DType::q2_K>;
    case DType::q3_K:
      return &kProduct<DType::q3_K>;
    case DType::q4_K:
      return &kProduct<DType::q4_K>;
    case DType::q5_K:
      return &kProduct<DType::q5_K>;
    case DType::q6_K:
      return &kProduct<DType::q6_K>;
    case DType::tq2_0:
      return &kProduct<DType::tq2_0>;
    case DType::iq2_xs:
      return &kProduct<DType::iq2_xs>;
    case DType::iq4_xs:
      return &kProduct<DType::iq4_xs>;
    case DType::mxfp4:
      return &kProduct<DType::mxfp4>;
    default:
      return nullptr;
  }
}

void widen_tokens(const TokenTile& t) noexcept {
  for (int m = 0; m < t.live; ++m) {
    const auto* from = reinterpret_cast<const std::uint16_t*>(t.x + m * t.x_stride);
    float* to = reinterpret_cast<float*>(t.out) + m * t.k;
    std::int64_t i = 0;
    for (; i + kLanes <= t.k; i += kLanes) store(to + i, load_bf16(from + i));
    for (; i < t.k; ++i) {
      const std::uint32_t bits = static_cast<std::uint32_t>(from[i]) << 16;
      __builtin_memcpy(to + i, &bits, 4);
    }
  }
}

}  // namespace rlx::cpu::RLX_ISA_LEVEL
#endif
