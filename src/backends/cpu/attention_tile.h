// The inner loops of attention: scores of a few query rows with panels of 16 keys, and their
// weighted sums of values. Every output has one accumulator that runs over the lanes (scores) or
// the tokens (values) in increasing order, so the size of the tile, and with it prefill or decode,
// changes no bit.
#pragma once

#include <utility>

#include "backends/cpu/attention_layout.h"
#include "backends/cpu/simd.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

#if defined(RLX_ISA_avx512_bf16)
constexpr bool kPairs = true;   // vdpbf16ps: products of bf16 pairs, for a bf16 cache
#else
constexpr bool kPairs = false;
#endif

// Rows at once and vectors beside each other, as the registers allow: accumulators, one vector of K
// or V, one broadcast.
#if defined(RLX_WIDE)
constexpr int kRows = 6, kRowsQ8 = 6;
constexpr int vectors_at_once(int) { return 4; }
#elif defined(RLX_ISA_avx2)
constexpr int kRows = 6, kRowsQ8 = 2;
constexpr int vectors_at_once(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }
#else
constexpr int kRows = 2, kRowsQ8 = 1;
constexpr int vectors_at_once(int rows) { return rows == 1 ? 2 : 1; }
#endif

template <int I>
struct Index {
  constexpr operator int() const { return I; }
};
template <typename F, int... I>
RLX_SIMD void unroll_all(F f, std::integer_sequence<int, I...>) { (f(Index<I>{}), ...); }
template <int N, typename F>
RLX_SIMD void unroll(F f) { unroll_all(f, std::make_integer_sequence<int, N>{}); }
#define RLX_INLINE __attribute__((always_inline))

/// K and V of one page of a head, in the layout of the cache or widened to f32.
struct Page {
  const std::byte *k, *v;
  const float* v_scales;  ///< [64][head_dim / 32], q8_0 only
  std::int64_t head_dim, width, panel_bytes;
  // From this page to the sequence's next one, 0 when there is none. Pages lie anywhere, so the
  // hardware does not foresee the next, and without prefetch reading and arithmetic take turns.
  std::int64_t next_k, next_v;
};
RLX_SIMD void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

/// A query row in scratch: f32 (rounded to bf16 for that cache), or pairs of bf16, or int8 with
/// scales; `width` floats apart.
struct QuantizedRow {
  const signed char* q;
  const float* d;
  const std::int32_t* sums;
};
RLX_SIMD QuantizedRow quantized_row(const float* row, std::int64_t head_dim) {
  const auto* q = reinterpret_cast<const signed char*>(row);
  const auto* d = reinterpret_cast<const float*>(q + head_dim);
  return {q, d, reinterpret_cast<const std::int32_t*>(d + head_dim / kKvGroup)};
}

/// scores[r][panel * 16 ..] of R rows with N panels. q: rows of `width` floats; scores: rows of 64.
template <DType D, int R, int N>
void score_panels(const float* q, const Page& page, int panel, float* scores) noexcept {
  f32x16 acc[R][N];
  unroll<R>([&](auto r) RLX_INLINE { unroll<N>([&](auto n) RLX_INLINE { acc[r][n] = zero_f32(); }); });
  const std::byte* const k = page.k + panel * page.panel_bytes;
  const std::int64_t head_dim = page.head_dim, width = page.width, next = page.panel_bytes;
  if constexpr (D == DType::q8_0) {
    for (std::int64_t g = 0; g < head_dim / kKvGroup; ++g) {
      i32x16 dot[R][N];
      unroll<R>([&](auto r) RLX_INLINE {
        const i32x16 start = set1_i32(-kSignedOffset * quantized_row(q + r * width, head_dim).sums[g]);
        unroll<N>([&](auto n) RLX_INLINE { dot[r][n] = start; });
      });
      const std::byte* line = k + k_scale_bytes(head_dim) + g * 8 * 64;
      const std::byte* ahead = k + k_scale_bytes(head_dim) + g * 8 * N * 64 + page.next_k;
      for (int step = 0; step < 8; ++step, line += 64, ahead += N * 64)
        unroll<N>([&](auto n) RLX_INLINE {
          prefetch(ahead + n * 64);
          const SignedLine w = signed_line(load_line(line + n * next));
          unroll<R>([&](auto r) RLX_INLINE {
            const x4 x = load_x4(reinterpret_cast<const signed char*>(q + r * width) + g * kKvGroup + step * 4);
            dot[r][n] = dot_signed(dot[r][n], w, x);
          });
        });
      unroll<N>([&](auto n) RLX_INLINE {
        const f32x16 dk = load_f16(reinterpret_cast<const std::uint16_t*>(k + n * next + g * kPanelTokens * 2));
        unroll<R>([&](auto r) RLX_INLINE {
          acc[r][n] = fma(to_f32(dot[r][n]), dk * set1(quantized_row(q + r * width, head_dim).d[g]), acc[r][n]);
        });
      });
    }
  } else if constexpr (D == DType::bf16) {
    for (std::int64_t i = 0; i < head_dim; i += 2) {
      i32x16 pair[N];
      unroll<N>([&](auto n) RLX_INLINE {
        prefetch(k + (i / 2 * N + n) * 64 + page.next_k);
        pair[n] = load_i32(k + n * next + i * 32);
      });
#if defined(RLX_ISA_avx512_bf16)
      unroll<R>([&](auto r) RLX_INLINE {
        const int two = reinterpret_cast<const int*>(q + r * width)[i / 2];
        const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(two));
        unroll<N>([&](auto n) RLX_INLINE {
          acc[r][n].v = _mm512_dpbf16_ps(acc[r][n].v, reinterpret_cast<__m512bh>(pair[n].v), x);
        });
      });
#else
      unroll<R>([&](auto r) RLX_INLINE {
        const f32x16 x = set1(q[r * width + i]);
        unroll<N>([&](auto n) RLX_INLINE { acc[r][n] = fma(x, as_f32(shl<16>(pair[n])), acc[r][n]); });
      });
      unroll<R>([&](auto r) RLX_INLINE {
        const f32x16 x = set1(q[r * width + i + 1]);
        unroll<N>([&](auto n) RLX_INLINE {
          acc[r][n] = fma(x, as_f32(pair[n] & set1_i32(static_cast<int>(0xffff0000u))), acc[r][n]);
        });
      });
#endif
    }
  } else {
    constexpr int kStep = D == DType::f32 ? 64 : 32;
    for (std::int64_t i = 0; i < head_dim; ++i) {
      f32x16 key[N];
      unroll<N>([&](auto n) RLX_INLINE {
        const std::byte* at_lane = k + n * next + i * kStep;
        prefetch(k + (i * N + n) * kStep + page.next_k);
        if constexpr (D == DType::f32)
          key[n] = load(reinterpret_cast<const float*>(at_lane));
        else
          key[n] = load_f16(reinterpret_cast<const std::uint16_t*>(at_lane));
      });
      unroll<R>([&](auto r) RLX_INLINE {
        const f32x16 x = set1(q[r * width + i]);
        unroll<N>([&](auto n) RLX_INLINE { acc[r][n] = fma(x, key[n], acc[r][n]); });
      });
    }
  }
  unroll<R>([&](auto r) RLX_INLINE {
    unroll<N>([&](auto n) RLX_INLINE { store(scores + r * kPageTokens + (panel + n) * kPanelTokens, acc[r][n]); });
  });
}

/// o[r][lane ..] += p[r][t] * v[t][lane ..] for tokens t in from .. to - 1 of the page; N vectors of 16 lanes.
/// p: rows of 64 (pairs of bf16 where kPairs); o: rows of `width`.
template <DType D, int R, int N>
void add_values(const float* p, const Page& page, std::int64_t lane, int from, int to, float* o) noexcept {
  f32x16 acc[R][N];
  const std::int64_t width = page.width;
  unroll<R>([&](auto r) RLX_INLINE {
    unroll<N>([&](auto n) RLX_INLINE { acc[r][n] = load(o + r * width + lane + n * 16); });
  });
  if constexpr (D == DType::bf16 && kPairs) {
#if defined(RLX_ISA_avx512_bf16)
    const auto* v = reinterpret_cast<const std::uint32_t*>(page.v) + lane;
    for (int pair = from / 2; pair * 2 < to; ++pair) {
      // A token outside the range must not count, whatever stands in the cache there.
      unsigned keep = 0xffffffffu;
      if (pair * 2 < from) keep &= 0xffff0000u;
      if (pair * 2 + 1 >= to) keep &= 0x0000ffffu;
      __m512i values[N];
      unroll<N>([&](auto n) RLX_INLINE {
        prefetch(page.v + (pair * width + lane + n * 16) * 4 + page.next_v);
        values[n] = _mm512_and_si512(_mm512_loadu_si512(v + pair * width + n * 16),
            _mm512_set1_epi32(static_cast<int>(keep)));
      });
      unroll<R>([&](auto r) RLX_INLINE {
        const int two = reinterpret_cast<const int*>(p + r * kPageTokens)[pair];
        const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(two));
        unroll<N>([&](auto n) RLX_INLINE {
          acc[r][n].v = _mm512_dpbf16_ps(acc[r][n].v, reinterpret_cast<__m512bh>(values[n]), x);
        });
      });
    }
#endif
  } else {
    for (int t = from; t < to; ++t) {
      f32x16 value[N];
      unroll<N>([&](auto n) RLX_INLINE {
        const std::int64_t i = lane + n * 16;
        prefetch(page.v + v_offset(D, page.head_dim, t, i) + page.next_v);
        if constexpr (D == DType::f32) {
          value[n] = load(reinterpret_cast<const float*>(page.v) + t * width + i);
        } else if constexpr (D == DType::f16) {
          value[n] = load_f16(reinterpret_cast<const std::uint16_t*>(page.v) + t * width + i);
        } else if constexpr (D == DType::bf16) {
          const i32x16 pair = load_i32(page.v + (t / 2 * width + i) * 4);
          value[n] = as_f32(t % 2 == 0 ? shl<16>(pair) : pair & set1_i32(static_cast<int>(0xffff0000u)));
        } else {
          const float d = page.v_scales[t * (page.head_dim / kKvGroup) + i / kKvGroup];
          value[n] = to_f32(load_s8(page.v + t * page.head_dim + i)) * set1(d);
        }
      });
      unroll<R>([&](auto r) RLX_INLINE {
        const f32x16 x = set1(p[r * kPageTokens + t]);
        unroll<N>([&](auto n) RLX_INLINE { acc[r][n] = fma(x, value[n], acc[r][n]); });
      });
    }
  }
  unroll<R>([&](auto r) RLX_INLINE {
    unroll<N>([&](auto n) RLX_INLINE { store(o + r * width + lane + n * 16, acc[r][n]); });
  });
}

/// Panels first .. last - 1 of K as f32 [head_dim][16]. For many query rows each value is converted once.
template <DType D>
void widen_keys(const Page& page, int first, int last, float* to) noexcept {
  for (int panel = first; panel < last; ++panel) {
    const auto* k = reinterpret_cast<const std::uint16_t*>(page.k + panel * page.panel_bytes);
    float* out = to + panel * page.head_dim * kPanelTokens;
    if constexpr (D == DType::bf16) {
      for (std::int64_t i = 0; i < page.head_dim; i += 2) {
        const i32x16 pair = load_i32(k + i * kPanelTokens);
        store(out + i * kPanelTokens, as_f32(shl<16>(pair)));
        store(out + (i + 1) * kPanelTokens, as_f32(pair & set1_i32(static_cast<int>(0xffff0000u))));
      }
    } else {
      for (std::int64_t i = 0; i < page.head_dim * kPanelTokens; i += 16) store(out + i, load_f16(k + i));
    }
  }
}

/// Tokens from .. to - 1 of V as f32 rows of `width`.
template <DType D>
void widen_values(const Page& page, int from, int to, float* out) noexcept {
  for (int t = from; t < to; ++t)
    for (std::int64_t i = 0; i < page.width; i += 16) {
      f32x16 v;
      if constexpr (D == DType::f16) {
        v = load_f16(reinterpret_cast<const std::uint16_t*>(page.v) + t * page.width + i);
      } else if constexpr (D == DType::bf16) {
        const i32x16 pair = load_i32(page.v + (t / 2 * page.width + i) * 4);
        v = as_f32(t % 2 == 0 ? shl<16>(pair) : pair & set1_i32(static_cast<int>(0xffff0000u)));
      } else {
        const float d = page.v_scales[t * (page.head_dim / kKvGroup) + i / kKvGroup];
        v = to_f32(load_s8(page.v + t * page.head_dim + i)) * set1(d);
      }
      store(out + t * page.width + i, v);
    }
}

}  // namespace
}  // namespace rlx::cpu::RLX_ISA_LEVEL
