// Tiles of int8 tokens times panels of integers. Every kernel here, packed or unpacked, few tokens or many, computes
//   types with groups of 64:   f = fma(float(dot), scale * d, f);  with a minimum then f = fma(min, d * sum, f)
//   types with groups of 256:  g = fma(float(dot), scale * d, g) and m = fma(min, d * sum, m) over the eight blocks;
//                              then f = fma(dw, g, f), f = fnma(dmin, m, f)
// in increasing k for each result, with dot = the exact sum of (integer - offset) * q over a scale's 32 or 16 k, and d and sum
// those of the token's group. So all of them give the same bits (kernels.md, 2.8).
#pragma once

#include "backends/cpu/matmul_lines.h"

namespace rlx::cpu::RLX_ISA_LEVEL {

/// Largest number of steps that int16 sums of a line's dots take: 2 * steps * max * 127 < 32768.
constexpr int short_steps(int bits) { return bits <= 4 ? 8 : bits == 5 ? 4 : 2; }

/// The order of the steps of a block: the two halves of a nibble line follow each other.
template <DType D>
constexpr int step_at(int i) {
  constexpr int bits = panel_info(D).bits;
  return bits == 4 || bits == 5 ? i / 2 + i % 2 * 4 : i;
}

/// acc[scale][panel][token] += dots of a block. lines: packed blocks (one panel), or unpacked ones.
template <DType D, bool Packed, int R, int M, int S>
RLX_SIMD void add_dots(const std::byte* const (&lines)[R], const signed char* const (&x)[M],
                       i32x16 (&acc)[S][R][M]) {
  constexpr const PanelInfo& p = kPanel<D>;
  constexpr int steps_per_scale = p.sub / 4;
  constexpr int period =
      short_steps(p.bits) < steps_per_scale ? short_steps(p.bits) : steps_per_scale;
  short_acc sums[R][M];
  each_index<8>([&](auto i) RLX_INLINE {
    constexpr int step = step_at<D>(i), sub = step / steps_per_scale;
    u8x64 line[R];
    each_index<R>([&](auto r) RLX_INLINE {
      if constexpr (Packed) line[r] = packed_line<D, step>(lines[r]);
      else line[r] = load_line(lines[r] + step * kLineBytes);
    });
    if constexpr (p.is_signed) {
      each_index<R>([&](auto r) RLX_INLINE {
        const SignedLine s = signed_line(line[r]);
        each_index<M>([&](auto m) RLX_INLINE {
          acc[sub][r][m] = dot_signed(acc[sub][r][m], s, load_x4(x[m] + step * 4));
        });
      });
    } else {
      each_index<M>([&](auto m) RLX_INLINE {
        const x4 v = load_x4(x[m] + step * 4);
        each_index<R>([&](auto r) RLX_INLINE {
          i32x16& a = acc[sub][r][m];
          if constexpr (!kShortSums) {
            a = dot_unsigned(a, line[r], v);
          } else {
            short_acc& s = sums[r][m];
            s = dot_short(i % period == 0 ? short_zero() : s, line[r], v);
            if constexpr (i % period == period - 1) a = widen_add(a, s);
          }
        });
      });
    }
  });
}

/// What one block needs: `group` and `b` find the scales of a packed one, `lines` those of an unpacked one.
template <int R, int M>
struct BlockRefs {
  const std::byte* lines[R];
  const std::byte* group[R];
  const signed char* x[M];
  const float* prep;
  int b;
};

template <DType D, bool Packed, int R, int M>
RLX_SIMD f32x16 scale_of(const BlockRefs<R, M>& at, int r, int sub) {
  if constexpr (Packed) return packed_scale<D>(at.group[r], at.b, sub);
  else return load(reinterpret_cast<const float*>(at.lines[r] + 512) + sub * 16);
}
template <DType D, bool Packed, int R, int M>
RLX_SIMD f32x16 min_of(const BlockRefs<R, M>& at, int r, int sub) {
  if constexpr (Packed) return packed_min<D>(at.group[r], at.b, sub);
  else return load(reinterpret_cast<const float*>(at.lines[r] + 512) + (panel_info(D).subs() + sub) * 16);
}

/// One block: g += scaled dots; m += minima (the same sums as g for types with groups of 64).
template <DType D, bool Packed, int R, int M>
RLX_SIMD void add_block(const BlockRefs<R, M>& at, f32x16 (&g)[R][M], f32x16 (&mins)[R][M]) {
  constexpr const PanelInfo& p = kPanel<D>;
  constexpr int subs = p.subs();
  constexpr bool corrected = p.offset != 0 || (p.is_signed && kSignedOffset != 0);
  i32x16 acc[subs][R][M];
  each_index<subs>([&](auto s) RLX_INLINE {
    each_index<M>([&](auto m) RLX_INLINE {
      i32x16 start = zero_i32();
      if constexpr (corrected) start = as_i32(set1(at.prep[(1 + s) * M + m]));
      each_index<R>([&](auto r) RLX_INLINE { acc[s][r][m] = start; });
    });
  });
  add_dots<D, Packed>(at.lines, at.x, acc);
  each_index<subs>([&](auto s) RLX_INLINE {
    each_index<R>([&](auto r) RLX_INLINE {
      const f32x16 scale = scale_of<D, Packed>(at, r, s);
      each_index<M>([&](auto m) RLX_INLINE {
        g[r][m] = fma(to_f32(acc[s][r][m]), scale * set1(at.prep[m]), g[r][m]);
      });
      if constexpr (p.has_min) {
        const f32x16 low = min_of<D, Packed>(at, r, s);
        each_index<M>([&](auto m) RLX_INLINE {
          f32x16& sum = p.is_super() ? mins[r][m] : g[r][m];
          sum = fma(low, set1(at.prep[(1 + s) * M + m]), sum);
        });
      }
    });
  });
}

/// The end of a group of 256: f += d * g - dmin * mins.
template <DType D, int R, int M>
RLX_SIMD void end_group(const f32x16 (&d)[R], const f32x16 (&dmin)[R], const f32x16 (&g)[R][M],
                        const f32x16 (&mins)[R][M], f32x16 (&f)[R][M]) {
  each_index<R>([&](auto r) RLX_INLINE {
    each_index<M>([&](auto m) RLX_INLINE {
      f[r][m] = fma(d[r], g[r][m], f[r][m]);
      if constexpr (kPanel<D>.has_min) f[r][m] = fnma(dmin[r], mins[r][m], f[r][m]);
    });
  });
}

template <int M>
RLX_SIMD void load_rows(const float* from, f32x16 (&to)[1][M]) {
  each_index<M>([&](auto m) RLX_INLINE { to[0][m] = load(from + m * kLanes); });
}
template <int M>
RLX_SIMD void store_rows(float* to, const f32x16 (&from)[1][M]) {
  each_index<M>([&](auto m) RLX_INLINE { store(to + m * kLanes, from[0][m]); });
}

/// Packed panels, side by side over k so that their loads overlap. Their sums wait in the cache between the blocks: decoding
/// needs the registers.
template <DType D, int M>
void packed_tile(const Tile& t) noexcept {
  constexpr const PanelInfo& p = kPanel<D>;
  alignas(64) float g[kDirectPanels][M * kLanes], mins[kDirectPanels][M * kLanes];
  for (int i = 0; i < t.panels * M; ++i) store(t.c + i * kLanes, zero_f32());
  BlockRefs<1, M> at;
  token_rows(t, at.x);
  at.prep = t.prep;
  const std::byte* group = t.w;
  for (std::int64_t k = 0; k < t.k; k += p.group, group += p.group_bytes()) {
    const int blocks = static_cast<int>(min64(p.group, t.k - k) / kBlock);
    if constexpr (p.is_super())
      for (int i = 0; i < t.panels * M; ++i) store(g[0] + i * kLanes, zero_f32()), store(mins[0] + i * kLanes, zero_f32());
    for (at.b = 0; at.b < blocks; ++at.b) {
      for (int r = 0; r < t.panels; ++r) {
        at.group[0] = group + r * t.w_stride;
        at.lines[0] = at.group[0] + p.header + std::int64_t{at.b} * p.block;
        prefetch_block<D>(at.lines[0]);
        f32x16 sums[1][M], low[1][M];
        float* const to = p.is_super() ? g[r] : t.c + r * M * kLanes;
        load_rows(to, sums);
        if constexpr (p.is_super()) {
          load_rows(mins[r], low);
          add_block<D, true>(at, sums, low);
          if constexpr (p.has_min) store_rows(mins[r], low);
        } else {
          add_block<D, true>(at, sums, sums);
        }
        store_rows(to, sums);
      }
      each_index<M>([&](auto m) RLX_INLINE { at.x[m] += kBlock; });
      at.prep += (1 + p.subs()) * M;
    }
    if constexpr (p.is_super())
      for (int r = 0; r < t.panels; ++r) {
        f32x16 f[1][M], sums[1][M], low[1][M];
        load_rows(t.c + r * M * kLanes, f);
        load_rows(g[r], sums);
        load_rows(mins[r], low);
        const std::byte* of = group + r * t.w_stride;
        end_group<D>({packed_d(of)}, {packed_dmin(of)}, sums, low, f);
        store_rows(t.c + r * M * kLanes, f);
      }
  }
}

template <DType D, int R, int M>
void unpacked_tile(const Tile& t) noexcept {
  constexpr const PanelInfo& p = kPanel<D>;
  f32x16 f[R][M], g[R][M], mins[R][M];
  load_sums(t, f);
  BlockRefs<R, M> at;
  each_index<R>([&](auto r) RLX_INLINE { at.lines[r] = t.w + r * t.w_stride; });
  token_rows(t, at.x);
  at.prep = t.prep;
  constexpr int per_group = p.is_super() ? p.group : kBlock;
  for (std::int64_t k = 0; k < t.k; k += per_group) {
    if constexpr (p.is_super())
      each_index<R * M>([&](auto i) RLX_INLINE { g[i / M][i % M] = mins[i / M][i % M] = zero_f32(); });
    for (int b = 0; b < per_group / kBlock; ++b) {
      if constexpr (p.is_super()) add_block<D, false>(at, g, mins);
      else add_block<D, false>(at, f, f);
      each_index<R>([&](auto r) RLX_INLINE { at.lines[r] += unpacked_block(p); });
      each_index<M>([&](auto m) RLX_INLINE { at.x[m] += kBlock; });
      at.prep += (1 + p.subs()) * M;
    }
    if constexpr (p.is_super()) {
      f32x16 d[R], dmin[R];
      each_index<R>([&](auto r) RLX_INLINE {
        const auto* tail = reinterpret_cast<const float*>(at.lines[r]);
        d[r] = load(tail);
        if constexpr (p.has_min) dmin[r] = load(tail + 16);
        at.lines[r] += unpacked_tail(p);
      });
      end_group<D>(d, dmin, g, mins, f);
    }
  }
  store_sums(t, f);
}

template <DType D>
void int_unpack(const std::byte* panel, std::int64_t first, std::int64_t k, std::byte* out) noexcept {
  constexpr const PanelInfo& p = kPanel<D>;
  const std::byte* group = panel + first / p.group * p.group_bytes();
  for (std::int64_t done = 0; done < k; done += p.group, group += p.group_bytes()) {
    const int blocks = static_cast<int>(min64(p.group, k - done) / kBlock);
    for (int b = 0; b < blocks; ++b, out += unpacked_block(p)) {
      const std::byte* block = group + p.header + std::int64_t{b} * p.block;
      each_index<8>([&](auto i) RLX_INLINE {
        constexpr int step = step_at<D>(i);
        store_line(out + step * kLineBytes, packed_line<D, step>(block));
      });
      auto* scales = reinterpret_cast<float*>(out + 512);
      each_index<p.subs()>([&](auto s) RLX_INLINE {
        store(scales + s * 16, packed_scale<D>(group, b, s));
        if constexpr (p.has_min) store(scales + (p.subs() + s) * 16, packed_min<D>(group, b, s));
      });
    }
    if constexpr (p.is_super()) {
      auto* tail = reinterpret_cast<float*>(out);
      store(tail, packed_d(group));
      if constexpr (p.has_min) store(tail + 16, packed_dmin(group));
      out += unpacked_tail(p);
    }
  }
}

/// See TokenTile. A row of xq8 is int8 q[k], float d[k / 32], int32 sum[k / 16] (dtype.h).
template <DType D>
void int_prepare(const TokenTile& t) noexcept {
  constexpr const PanelInfo& p = kPanel<D>;
  constexpr int offset = p.is_signed ? kSignedOffset : p.offset;
  const std::int64_t blocks = t.k / kBlock;
  const std::int64_t floats = prep_floats(D, t.k) * t.tokens;
  for (std::int64_t i = 0; t.live < t.tokens && i < floats; ++i) t.out[i] = 0.0f;
  for (int m = 0; m < t.live; ++m) {
    const std::byte* row = t.x + m * t.x_stride;
    const auto* d = reinterpret_cast<const float*>(row + t.k);
    const auto* sums = reinterpret_cast<const std::int32_t*>(d + blocks);
    float* out = t.out + m;
    for (std::int64_t b = 0; b < blocks; ++b, out += (1 + p.subs()) * t.tokens) {
      out[0] = d[b];
      for (int s = 0; s < p.subs(); ++s) {
        const std::int32_t sum = p.subs() == 2 ? sums[2 * b + s] : sums[2 * b] + sums[2 * b + 1];
        float& to = out[(1 + s) * t.tokens];
        if constexpr (p.has_min) {
          to = d[b] * static_cast<float>(sum);
        } else {
          const std::int32_t correction = -offset * sum;
          __builtin_memcpy(&to, &correction, 4);
        }
      }
    }
  }
}

// Tokens of a tile: as many as the registers hold beside a line (avx2: 4 x 2 sums of 16; AVX-512: 4 x 2 panels).
#if defined(RLX_ISA_baseline)
inline constexpr int kIntTokens = 2;
#else
inline constexpr int kIntTokens = 4;
#endif

template <DType D>
constexpr ProductKernels make_int() {
  ProductKernels k;
  k.direct[1] = packed_tile<D, 1>;
  k.direct[2] = packed_tile<D, 2>;
  k.direct[4] = packed_tile<D, 4>;
  k.unpack = int_unpack<D>;
  k.prepare = int_prepare<D>;
  k.tile[0][1] = unpacked_tile<D, 1, 1>;
  k.tile[0][2] = unpacked_tile<D, 1, 2>;
#if !defined(RLX_ISA_baseline)
  k.tile[0][4] = unpacked_tile<D, 1, 4>;
#endif
#if defined(RLX_WIDE)
  k.tile[1][1] = unpacked_tile<D, 2, 1>;
  k.tile[1][2] = unpacked_tile<D, 2, 2>;
  k.tile[1][4] = unpacked_tile<D, 2, 4>;
#endif
  k.tile_tokens = kIntTokens;
  return k;
}
template <DType D>
inline constexpr ProductKernels kIntProduct = make_int<D>();

}  // namespace rlx::cpu::RLX_ISA_LEVEL
