// What the kernels of convolutions with channels last share: the size of a tile, its inner loop, and how places and
// workers are cut into tiles.
#pragma once

#include "backends/cpu/matmul_tile.h"
#include "backends/cpu/work.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

#if defined(RLX_ISA_avx512_bf16)
constexpr DType kType = DType::bf16;  // that level has nothing else here that avx512 lacks
using Value = std::uint16_t;
#else
constexpr DType kType = DType::f32;
using Value = float;
#endif
constexpr std::int64_t kStep = sizeof(Value) == 2 ? 2 : 1;  // values of a step of k

// Places and panels of a tile. AVX-512: 28 of the 32 registers hold sums; a step of k reads 16 lines for 28 products,
// so that even panels that lie in L2 keep up (ResNet-50, one thread of Zen 5: 249 of 265 GFLOP/s; with 8 places 239).
// 49, 196, 784 and 3136 places, the planes of 224 x 224 images, are whole halves of such tiles.
#if defined(RLX_WIDE)
constexpr int kPlaces = 14, kPanels = 2;
#elif defined(RLX_ISA_avx2)
constexpr int kPlaces = 6, kPanels = 1;
#else
constexpr int kPlaces = 2, kPanels = 1;
#endif

RLX_SIMD f32x16 load_lanes(const float* p, int lanes) { return lanes == kLanes ? load(p) : load_partial(p, lanes); }
RLX_SIMD void store_lanes(float* p, f32x16 v, int lanes) {
  if (lanes == kLanes)
    store(p, v);
  else
    store_partial(p, v, lanes);
}

/// Where a tile reads weights: R panels, and the one that it asks for.
struct Lines {
  const std::byte* w;
  std::int64_t stride;  ///< to the next panel
  const std::byte* ahead;
  RLX_SIMD void next() {
    _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T1);
    w += kLineBytes, ahead += kLineBytes;
  }
};

/// Adds one step of k, values i and maybe i + 1 of the windows of M places, times R panels.
template <int R, int M>
RLX_SIMD void add_step(const Value* const (&x)[M], std::int64_t i, Lines& lines, f32x16 (&f)[R][M]) {
#if defined(RLX_ISA_avx512_bf16)
  __m512bh line[R];
  each_index<R>([&](auto r) RLX_INLINE { line[r] = (__m512bh)_mm512_loadu_si512(lines.w + r * lines.stride); });
  each_index<M>([&](auto m) RLX_INLINE {
    std::int32_t pair;
    __builtin_memcpy(&pair, x[m] + i, 4);
    const __m512bh v = (__m512bh)_mm512_set1_epi32(pair);
    each_index<R>([&](auto r) RLX_INLINE { f[r][m] = {_mm512_dpbf16_ps(f[r][m].v, line[r], v)}; });
  });
#else
  f32x16 line[R];
  each_index<R>([&](auto r) RLX_INLINE { line[r] = load(reinterpret_cast<const float*>(lines.w + r * lines.stride)); });
  each_index<M>([&](auto m) RLX_INLINE {
    const f32x16 v = set1(x[m][i]);
    each_index<R>([&](auto r) RLX_INLINE { f[r][m] = fma(line[r], v, f[r][m]); });
  });
#endif
  lines.next();
}

/// Tiles of `count` places, about equal.
struct Tiling {
  std::int64_t count;
  std::int64_t tiles() const { return (count + kPlaces - 1) / kPlaces; }
  std::int64_t begin(std::int64_t tile) const { return count * tile / tiles(); }
};

}  // namespace
}  // namespace rlx::cpu::RLX_ISA_LEVEL
