// Tiles of int8 tokens times panels of integers. Every kernel here, packed or unpacked, few tokens
// or many, computes
//   f = fma(float(dot), scale * d, f);  for types with a minimum then f = fma(min, d * sum, f)
// in increasing k for each result, with dot = the exact sum of (integer - offset) * q over the 32
// or 16 k of a scale, d and sum those of the token's group, and for groups of 256 scale = dw *
// integer scale, min = -(dmin * integer minimum), rounded to f32. So all of them give the same bits
// (kernels.md, 2.8).
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

/// What one block needs: `group` and `b` find the scales of a packed one, `lines` those of an
/// unpacked one.
template <int R, int M>
struct BlockRefs {
  const std::byte* lines[R];
  const std::byte* group;  // of one panel
  const std::byte* x;      // TokenTile
  int b;
  const float* floats() const { return reinterpret_cast<const float*>(x + M * kBlock); }
};

/// acc[scale][panel][token] += dots of a block; lines: packed blocks (of one panel), or unpacked ones.
template <DType D, bool Packed, int R, int M, int S>
RLX_SIMD void add_dots(const BlockRefs<R, M>& at, i32x16 (&acc)[S][R][M]) {
  constexpr PanelInfo p = kPanel<D>;
  constexpr int steps_per_scale = p.sub / 4;
  constexpr int period =
      short_steps(p.bits) < steps_per_scale ? short_steps(p.bits) : steps_per_scale;
  const auto* x = reinterpret_cast<const signed char*>(at.x);
  short_acc sums[R][M];
  each_index<8>([&](auto i) RLX_INLINE {
    constexpr int step = step_at<D>(i), sub = step / steps_per_scale;
    u8x64 line[R];
    each_index<R>([&](auto r) RLX_INLINE {
      if constexpr (Packed)
        line[r] = packed_line<D, step>(at.lines[r], at.group);
      else
        line[r] = load_line(at.lines[r] + step * kLineBytes);
    });
    if constexpr (p.is_signed) {
      each_index<R>([&](auto r) RLX_INLINE {
        const SignedLine s = signed_line(line[r]);
        each_index<M>([&](auto m) RLX_INLINE {
          acc[sub][r][m] = dot_signed(acc[sub][r][m], s, load_x4(x + (step * M + m) * 4));
        });
      });
    } else {
      each_index<M>([&](auto m) RLX_INLINE {
        const x4 v = load_x4(x + (step * M + m) * 4);
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

template <DType D, bool Packed, int R, int M>
RLX_SIMD f32x16 scale_of(const BlockRefs<R, M>& at, int r, int sub) {
  if constexpr (Packed)
    return packed_scale<D>(at.group, at.b, sub);
  else
    return load(reinterpret_cast<const float*>(at.lines[r] + 512) + sub * 16);
}
template <DType D, bool Packed, int R, int M>
RLX_SIMD f32x16 min_of(const BlockRefs<R, M>& at, int r, int sub) {
  if constexpr (Packed)
    return packed_min<D>(at.group, at.b, sub);
  else
    return load(reinterpret_cast<const float*>(at.lines[r] + 512) + (kPanel<D>.subs() + sub) * 16);
}

/// f += one block.
template <DType D, bool Packed, int R, int M>
RLX_SIMD void add_block(const BlockRefs<R, M>& at, f32x16 (&f)[R][M]) {
  constexpr PanelInfo p = kPanel<D>;
  constexpr int subs = p.subs();
  constexpr bool corrected = p.offset != 0 || (p.is_signed && kSignedOffset != 0);
  const float* const floats = at.floats();
  i32x16 acc[subs][R][M];
  each_index<subs>([&](auto s) RLX_INLINE {
    each_index<M>([&](auto m) RLX_INLINE {
      i32x16 start = zero_i32();
      if constexpr (corrected) start = as_i32(set1(floats[(1 + s) * M + m]));
      each_index<R>([&](auto r) RLX_INLINE { acc[s][r][m] = start; });
    });
  });
  add_dots<D, Packed>(at, acc);
  each_index<subs>([&](auto s) RLX_INLINE {
    each_index<R>([&](auto r) RLX_INLINE {
      const f32x16 scale = scale_of<D, Packed>(at, r, s);
      each_index<M>([&](auto m) RLX_INLINE {
        f[r][m] = fma(to_f32(acc[s][r][m]), scale * set1(floats[m]), f[r][m]);
      });
      if constexpr (p.has_min) {
        const f32x16 low = min_of<D, Packed>(at, r, s);
        each_index<M>([&](auto m) RLX_INLINE {
          f[r][m] = fma(low, set1(floats[(1 + s) * M + m]), f[r][m]);
        });
      }
    });
  });
}

/// Packed panels, one after the other: a single stream of memory, asked for in advance, is faster than several of them
/// side by side, and leaves the sums in registers (Zen 5, share of the read probe of two threads, 8 KiB ahead: q4_K
/// 96 %, q8_0 92 %, q4_0 95 %, q6_K 92 %; two panels at once 59 to 86 %; eight tokens 51 to 93 %).
template <DType D, int M>
void packed_tile(const Tile& t) noexcept {
  constexpr PanelInfo p = kPanel<D>;
  for (int r = 0; r < t.panels; ++r) {
    f32x16 f[1][M];
    each_index<M>([&](auto m) RLX_INLINE { f[0][m] = zero_f32(); });
    BlockRefs<1, M> at;
    at.x = t.x;
    at.group = t.w + r * t.w_stride;
    for (std::int64_t k = 0; k < t.k; k += p.group, at.group += p.group_bytes()) {
      const int blocks = static_cast<int>(min64(p.group, t.k - k) / kBlock);
      for (at.b = 0; at.b < blocks; ++at.b, at.x += M * ready_block(D)) {
        at.lines[0] = at.group + p.header + std::int64_t{at.b} * p.block;
        if (t.ahead_bytes > 0) prefetch_block<D>(at.lines[0], t.ahead_bytes);
        add_block<D, true>(at, f);
      }
    }
    each_index<M>([&](auto m) RLX_INLINE { store(t.c + (r * M + m) * kLanes, f[0][m]); });
  }
}

template <DType D, int R, int M>
void unpacked_tile(const Tile& t) noexcept {
  constexpr PanelInfo p = kPanel<D>;
  f32x16 f[R][M];
  load_sums(t, f);
  BlockRefs<R, M> at;
  each_index<R>([&](auto r) RLX_INLINE { at.lines[r] = t.w + r * t.w_stride; });
  at.x = t.x;
  for (std::int64_t k = 0; k < t.k; k += kBlock, at.x += M * ready_block(D)) {
    add_block<D, false>(at, f);
    each_index<R>([&](auto r) RLX_INLINE { at.lines[r] += unpacked_block(p); });
  }
  store_sums(t, f);
}

template <DType D>
void int_unpack(const std::byte* panel, std::int64_t first, std::int64_t k,
                std::byte* out) noexcept {
  constexpr PanelInfo p = kPanel<D>;
  const std::byte* group = panel + first / p.group * p.group_bytes();
  for (std::int64_t done = 0; done < k; done += p.group, group += p.group_bytes()) {
    const int blocks = static_cast<int>(min64(p.group, k - done) / kBlock);
    for (int b = 0; b < blocks; ++b, out += unpacked_block(p)) {
      const std::byte* block = group + p.header + std::int64_t{b} * p.block;
      each_index<8>([&](auto i) RLX_INLINE {
        constexpr int step = step_at<D>(i);
        store_line(out + step * kLineBytes, packed_line<D, step>(block, group));
      });
      auto* scales = reinterpret_cast<float*>(out + 512);
      each_index<p.subs()>([&](auto s) RLX_INLINE {
        store(scales + s * 16, packed_scale<D>(group, b, s));
        if constexpr (p.has_min) store(scales + (p.subs() + s) * 16, packed_min<D>(group, b, s));
      });
    }
  }
}

/// The 32 bytes of a block of M tokens, four bytes of each in turn; strips of four tokens at once.
template <int M>
RLX_SIMD void interleave(const std::byte* const (&row)[M], std::int64_t at, std::byte* to) {
  if constexpr (M >= 4) {
    for (int m = 0; m < M; m += 4)
      for (int half = 0; half < 2; ++half) {
        const auto piece = [&](int i) RLX_INLINE {
          return _mm_loadu_si128(reinterpret_cast<const __m128i*>(row[m + i] + at + half * 16));
        };
        const __m128i a = _mm_unpacklo_epi32(piece(0), piece(1)), b = _mm_unpacklo_epi32(piece(2), piece(3)),
                      c = _mm_unpackhi_epi32(piece(0), piece(1)), d = _mm_unpackhi_epi32(piece(2), piece(3));
        const auto put = [&](int step, __m128i v) RLX_INLINE {
          _mm_storeu_si128(reinterpret_cast<__m128i*>(to + ((half * 4 + step) * M + m) * 4), v);
        };
        put(0, _mm_unpacklo_epi64(a, b));
        put(1, _mm_unpackhi_epi64(a, b));
        put(2, _mm_unpacklo_epi64(c, d));
        put(3, _mm_unpackhi_epi64(c, d));
      }
  } else {
    for (int step = 0; step < 8; ++step)
      for (int m = 0; m < M; ++m) __builtin_memcpy(to + (step * M + m) * 4, row[m] + at + step * 4, 4);
  }
}

template <DType D, int M>
void prepare_tile(const TokenTile& t) noexcept {
  constexpr PanelInfo p = kPanel<D>;
  constexpr int offset = p.is_signed ? kSignedOffset : p.offset;
  const std::int64_t blocks = t.k / kBlock;
  const std::byte* row[M];
  for (int m = 0; m < M; ++m) row[m] = t.x + (m < t.live ? m : 0) * t.x_stride;
  std::byte* to = t.out;
  for (std::int64_t b = 0; b < blocks; ++b, to += M * ready_block(D)) {
    interleave(row, b * kBlock, to);
    auto* const floats = reinterpret_cast<float*>(to + M * kBlock);
    for (int m = 0; m < M; ++m) {
      const auto* d = reinterpret_cast<const float*>(row[m] + t.k);
      const auto* sums = reinterpret_cast<const std::int32_t*>(d + blocks) + 2 * b;
      floats[m] = d[b];
      for (int s = 0; s < p.subs(); ++s) {
        const std::int32_t sum = p.subs() == 2 ? sums[s] : sums[0] + sums[1], correction = -offset * sum;
        if constexpr (p.has_min)
          floats[(1 + s) * M + m] = d[b] * static_cast<float>(sum);
        else
          __builtin_memcpy(&floats[(1 + s) * M + m], &correction, 4);
      }
    }
  }
}

/// See TokenTile. A row of xq8 is int8 q[k], float d[k / 32], int32 sum[k / 16] (dtype.h).
template <DType D>
void int_prepare(const TokenTile& t) noexcept {
  if (t.tokens == 1) return prepare_tile<D, 1>(t);
  if (t.tokens == 2) return prepare_tile<D, 2>(t);
  if (t.tokens == 4) return prepare_tile<D, 4>(t);
  prepare_tile<D, 8>(t);
}

template <DType D>
constexpr ProductKernels make_int() {
  ProductKernels k;
  k.direct[1] = packed_tile<D, 1>;
  k.direct[2] = packed_tile<D, 2>;
  k.direct[4] = packed_tile<D, 4>;
#if defined(RLX_WIDE)
  k.direct[8] = packed_tile<D, 8>;
#endif
  k.unpack = int_unpack<D>;
  k.prepare = int_prepare<D>;
  return k;
}
template <DType D>
inline constexpr ProductKernels kIntProduct = make_int<D>();

}  // namespace rlx::cpu::RLX_ISA_LEVEL
