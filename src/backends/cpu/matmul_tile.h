// What the pieces of the matrix products give one another (one set per instruction-set level). A
// tile is a few tokens times a few panels; a kernel of a tile runs over k and leaves its sums in
// Tile::c, and the driver (matmul_drive.simd.cpp) does the rest.
#pragma once

#include "backends/cpu/matmul_plan.h"
#include "backends/cpu/panels.h"
#include "backends/cpu/simd.h"

namespace rlx::cpu::RLX_ISA_LEVEL {

template <int I>
struct Index {
  constexpr operator int() const { return I; }
};
template <typename F, int... I>
RLX_SIMD void each_of(std::integer_sequence<int, I...>, F f) {
  (f(Index<I>{}), ...);
}
/// f(0), f(1), ... f(N-1) with constant arguments: arrays of vectors indexed by them stay in
/// registers.
template <int N, typename F>
RLX_SIMD void each_index(F f) {
  each_of(std::make_integer_sequence<int, N>{}, f);
}
#define RLX_INLINE __attribute__((always_inline))

template <DType D>
inline constexpr PanelInfo kPanel = panel_info(D);

struct Tile {
  const std::byte* w;     ///< the first panel: as packed, or as the unpack function left it
  std::int64_t w_stride;  ///< bytes to the next panel
  const std::byte* x;     ///< the first token at the first k; int8 tokens: the tile's blocks (TokenTile) from there on
  std::int64_t x_stride;  ///< bytes to the next token
  int live;  ///< tokens that are there; a kernel for more reads the first one again for the others
  std::int64_t k;            ///< how many k
  bool first;                ///< sums begin at 0, not at c
  int panels;                ///< direct kernels: how many, up to kDirectPanels
  std::int64_t ahead_bytes;  ///< direct kernels of int8 tokens ask for memory so far ahead; 0: they do not
  float* c;                  ///< [panels][tokens][16]
  /// Tiles of floats ask for k lines from here, one a step: a panel that is needed soon. Null: nothing.
  const std::byte* ahead;
};
using TileFn = void (*)(const Tile&) noexcept;

/// The beginnings of the tile's tokens.
template <typename T, int M>
RLX_SIMD void token_rows(const Tile& t, const T* (&x)[M]) {
  each_index<M>([&](auto m) RLX_INLINE {
    x[m] = reinterpret_cast<const T*>(t.x + (m < t.live ? m : 0) * t.x_stride);
  });
}
template <int R, int M>
RLX_SIMD void load_sums(const Tile& t, f32x16 (&f)[R][M]) {
  each_index<R * M>(
      [&](auto i) RLX_INLINE { f[i / M][i % M] = t.first ? zero_f32() : load(t.c + i * kLanes); });
}
template <int R, int M>
RLX_SIMD void store_sums(const Tile& t, const f32x16 (&f)[R][M]) {
  each_index<R * M>([&](auto i) RLX_INLINE { store(t.c + i * kLanes, f[i / M][i % M]); });
}

/// What a tile asks for ahead; where nothing is, its own panel, which is in the cache.
RLX_SIMD void prefetch_ahead(const Tile& t, std::int64_t line) {
  const std::byte* from = t.ahead ? t.ahead : t.w;
  _mm_prefetch(reinterpret_cast<const char*>(from + line * kLineBytes), _MM_HINT_T1);
}

/// Unpacks k columns of a packed panel from column `first` on.
using UnpackFn = void (*)(const std::byte* panel, std::int64_t first, std::int64_t k,
                          std::byte* out) noexcept;

/// Tokens of one tile. For int8 tokens `out` gets, per block of 32 k: s8 [8 steps][tokens][4], float d[tokens], then
/// for each scale of the weights in the block [tokens] of float d * sum (types with a minimum) or int32 -offset * sum:
/// a kernel reads one stream. Widened bf16 tokens: f32 [tokens][k].
struct TokenTile {
  const std::byte* x;
  std::int64_t x_stride, k;
  int tokens, live;  ///< tokens beyond `live` are the first one again
  std::byte* out;
};
using PrepareFn = void (*)(const TokenTile&) noexcept;

/// The tiles of one pair of types, over unpacked panels (or packed ones where there is nothing to
/// unpack).
struct TileKernels {
  TileFn tile[kTilePanels][kMaxTileTokens + 1] =
      {};          ///< [panels - 1][tokens: powers of 2, `tokens`]
  int tokens = 0;  ///< of a whole tile
};

/// The rest for one pair of types. Absent functions are null.
struct ProductKernels {
  TileFn direct[kDirectTokens + 1] = {};  ///< [tokens: 1, 2, 4, 8], packed panels
  UnpackFn unpack = nullptr;              ///< null: tiles read the packed panel
  PrepareFn prepare = nullptr;            ///< of int8 tokens
};

/// Null when there is none. int8 tokens times w, f32 (and widened bf16) tokens times w, bf16 tokens
/// on bf16 units.
const ProductKernels* block_kernels(DType w);  ///< int8 tokens, groups of 64
const ProductKernels* super_kernels(DType w);  ///< int8 tokens, groups of 256
const ProductKernels* float_kernels(DType w);
const ProductKernels* bf16_kernels(DType w);
const TileKernels* int_tiles(DType w);
const TileKernels& float_tiles();
const TileKernels& bf16_tiles();
void widen_tokens(const TokenTile& t) noexcept;  ///< bf16 to f32

}  // namespace rlx::cpu::RLX_ISA_LEVEL
