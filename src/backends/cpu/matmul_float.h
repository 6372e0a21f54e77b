// Tiles of f32 tokens times panels. Each result is one chain of fused multiply-adds in increasing
// k, whatever the tile, so all kernels of a pair of types give the same bits. Integer weights are
// widened to f32 first, with the roundings of the reference decoders.
#pragma once

#include "backends/cpu/matmul_lines.h"

namespace rlx::cpu::RLX_ISA_LEVEL {

/// Calls f(Index i, w) for the 32 columns of packed block b of a group, in increasing k.
template <DType D, typename F>
RLX_SIMD void widen_block(const std::byte* group, int b, F f) {
  constexpr PanelInfo p = kPanel<D>;
  const std::byte* block = group + p.header + std::int64_t{b} * p.block;
  each_index<p.subs()>([&](auto s) RLX_INLINE {
    const f32x16 scale = packed_scale<D>(group, b, s);
    f32x16 low = zero_f32();
    if constexpr (p.has_min) low = packed_min<D>(group, b, s);
    each_index<p.sub / 4>([&](auto i) RLX_INLINE {
      constexpr int step = s * (p.sub / 4) + i;
      const u8x64 line = packed_line<D, step>(block, group);
      each_index<4>([&](auto j) RLX_INLINE {
        i32x16 q;
        if constexpr (p.is_signed)
          q = signed_byte<j>(line);
        else
          q = unsigned_byte<j>(line) - set1_i32(p.offset);
        f32x16 w = to_f32(q) * scale;
        if constexpr (p.has_min) w = w + low;
        f(Index<step * 4 + j>{}, w);
      });
    });
  });
}

/// Calls f(k, w) for columns 0 .. n-1 of a panel of floats, which begins at an even column.
template <DType D, typename F>
RLX_SIMD void widen_floats(const std::byte* panel, std::int64_t n, F f) {
  if constexpr (D == DType::f32) {
    for (std::int64_t k = 0; k < n; ++k) f(k, load(reinterpret_cast<const float*>(panel) + k * 16));
  } else if constexpr (D == DType::f16) {
    for (std::int64_t k = 0; k < n; ++k) f(k, load_halves(panel + k * 32));
  } else {
    static_assert(D == DType::bf16);
    std::int64_t k = 0;
    for (; k + 1 < n; k += 2) {
      const i32x16 pair = load_i32(panel + k * 32);
      f(k, as_f32(shl<16>(pair)));
      f(k + 1, as_f32(pair & set1_i32(static_cast<int>(0xffff0000u))));
    }
    if (k < n) f(k, as_f32(shl<16>(load_i32(panel + k * 32))));
  }
}

/// M f32 tokens times R panels of f32, f16 or bf16.
template <DType D, int R, int M>
void float_tile(const Tile& t) noexcept {
  f32x16 f[R][M];
  load_sums(t, f);
  const float* x[M];
  token_rows(t, x);
  if constexpr (D == DType::f32) {
    const float* w[R];
    each_index<R>([&](auto r)
                      RLX_INLINE { w[r] = reinterpret_cast<const float*>(t.w + r * t.w_stride); });
    for (std::int64_t k = 0; k < t.k; ++k) {
      f32x16 line[R];
      prefetch_ahead(t, k);
      each_index<R>([&](auto r) RLX_INLINE { line[r] = load(w[r] + k * 16); });
      each_index<M>([&](auto m) RLX_INLINE {
        const f32x16 v = set1(x[m][k]);
        each_index<R>([&](auto r) RLX_INLINE { f[r][m] = fma(line[r], v, f[r][m]); });
      });
    }
  } else {
    // Two columns at a time for all panels, so that their chains run side by side.
    const auto columns = [&](std::int64_t k, std::int64_t n) RLX_INLINE {
      each_index<R>([&](auto r) RLX_INLINE {
        widen_floats<D>(
            t.w + r * t.w_stride + k * 32, n, [&](std::int64_t i, f32x16 line) RLX_INLINE {
              each_index<M>([&](auto m)
                                RLX_INLINE { f[r][m] = fma(line, set1(x[m][k + i]), f[r][m]); });
            });
      });
    };
    std::int64_t k = 0;
    for (; k + 1 < t.k; k += 2) columns(k, 2);
    if (k < t.k) columns(k, 1);
  }
  store_sums(t, f);
}

/// Packed panels of floats, several side by side: enough chains of sums and loads must be under
/// way.
template <DType D, int M>
void dense_direct(const Tile& t) noexcept {
#if defined(RLX_WIDE)
  constexpr int many = 8 / M < kDirectPanels ? 8 / M : kDirectPanels;
#else
  constexpr int many = 4 / M;
#endif
  Tile part = t;
  for (int r = 0; r < t.panels;) {
    const bool whole = t.panels - r >= many;
    part.w = t.w + r * t.w_stride;
    part.c = t.c + r * M * kLanes;
    if (whole)
      float_tile<D, many, M>(part);
    else
      float_tile<D, 1, M>(part);
    r += whole ? many : 1;
  }
}

/// One f32 token times packed panels of integers.
template <DType D>
void widened_direct(const Tile& t) noexcept {
  constexpr PanelInfo p = kPanel<D>;
  for (int r = 0; r < t.panels; ++r) {
    f32x16 f = zero_f32();
    const auto* x = reinterpret_cast<const float*>(t.x);
    const std::byte* group = t.w + r * t.w_stride;
    for (std::int64_t k = 0; k < t.k; k += p.group, group += p.group_bytes()) {
      const int blocks = static_cast<int>(min64(p.group, t.k - k) / kBlock);
      for (int b = 0; b < blocks; ++b, x += kBlock)
        widen_block<D>(group, b, [&](auto i, f32x16 w) RLX_INLINE { f = fma(w, set1(x[i]), f); });
    }
    store(t.c + r * kLanes, f);
  }
}

template <DType D>
void widen_unpack(const std::byte* panel, std::int64_t first, std::int64_t k,
                  std::byte* out) noexcept {
  auto* to = reinterpret_cast<float*>(out);
  if constexpr (kPanel<D>.group == 0) {
    widen_floats<D>(panel + first * 32, k,
                    [&](std::int64_t i, f32x16 w) RLX_INLINE { store(to + i * 16, w); });
  } else {
    constexpr PanelInfo p = kPanel<D>;
    const std::byte* group = panel + first / p.group * p.group_bytes();
    for (std::int64_t done = 0; done < k; done += p.group, group += p.group_bytes()) {
      const int blocks = static_cast<int>(min64(p.group, k - done) / kBlock);
      for (int b = 0; b < blocks; ++b, to += kBlock * 16)
        widen_block<D>(group, b, [&](auto i, f32x16 w) RLX_INLINE { store(to + i * 16, w); });
    }
  }
}

}  // namespace rlx::cpu::RLX_ISA_LEVEL
