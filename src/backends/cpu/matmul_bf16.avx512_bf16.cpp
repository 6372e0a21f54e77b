// bf16 tokens times bf16 panels on the units for bf16: each instruction adds the two products of a
// pair of columns.
#include "backends/cpu/matmul_tile.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

constexpr int kBf16Tokens = 8;

RLX_SIMD __m512bh as_bf16(__m512i v) { return reinterpret_cast<__m512bh>(v); }

template <int R, int M>
void bf16_tile(const Tile& t) noexcept {
  f32x16 f[R][M];
  load_sums(t, f);
  const std::byte* x[M];
  token_rows(t, x);
  const auto pair = [&](std::int64_t k, std::size_t bytes) RLX_INLINE {
    u8x64 line[R];
    prefetch_ahead(t, k / 2);
    each_index<R>([&](auto r) RLX_INLINE { line[r] = load_line(t.w + r * t.w_stride + k * 32); });
    each_index<M>([&](auto m) RLX_INLINE {
      int two = 0;
      __builtin_memcpy(&two, x[m] + k * 2, bytes);
      const __m512bh v = as_bf16(_mm512_set1_epi32(two));
      each_index<R>([&](auto r) RLX_INLINE {
        f[r][m].v = _mm512_dpbf16_ps(f[r][m].v, as_bf16(line[r].v), v);
      });
    });
  };
  std::int64_t k = 0;
  for (; k + 1 < t.k; k += 2) pair(k, 4);
  if (k < t.k) pair(k, 2);
  store_sums(t, f);
}

template <int M>
void bf16_direct(const Tile& t) noexcept {
  constexpr int many =
      8 / M < kDirectPanels ? 8 / M : kDirectPanels;  // chains of sums and loads under way
  Tile part = t;
  for (int r = 0; r < t.panels;) {
    const bool whole = t.panels - r >= many;
    part.w = t.w + r * t.w_stride;
    part.c = t.c + r * M * kLanes;
    if (whole)
      bf16_tile<many, M>(part);
    else
      bf16_tile<1, M>(part);
    r += whole ? many : 1;
  }
}

constexpr ProductKernels make() {
  ProductKernels k;
  k.direct[1] = bf16_direct<1>;
  k.direct[2] = bf16_direct<2>;
  k.direct[4] = bf16_direct<4>;
  return k;
}
constexpr ProductKernels kProduct = make();

constexpr TileKernels make_tiles() {
  TileKernels k;
  k.tile[0][1] = bf16_tile<1, 1>, k.tile[1][1] = bf16_tile<2, 1>;
  k.tile[0][2] = bf16_tile<1, 2>, k.tile[1][2] = bf16_tile<2, 2>;
  k.tile[0][4] = bf16_tile<1, 4>, k.tile[1][4] = bf16_tile<2, 4>;
  k.tile[0][kBf16Tokens] = bf16_tile<1, kBf16Tokens>,
  k.tile[1][kBf16Tokens] = bf16_tile<2, kBf16Tokens>;
  k.tokens = kBf16Tokens;
  return k;
}
constexpr TileKernels kTiles = make_tiles();

}  // namespace

const ProductKernels* bf16_kernels(DType w) { return w == DType::bf16 ? &kProduct : nullptr; }
const TileKernels& bf16_tiles() { return kTiles; }

}  // namespace rlx::cpu::RLX_ISA_LEVEL
