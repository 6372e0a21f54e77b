// Attention of prompts on the tile registers (AMX): scores and weighted sums of values are products of bf16 tiles with
// sums of f32, the softmax between them runs on vectors. A tile adds 32 products in an order of its own, so results
// differ in the last bits from those of other rows of the table: these run under --fast only (kernels.md, 2.8). A row
// takes the splits of 128 tokens that it sees in increasing position, each with the maximum so far; what it does not
// see adds exact zeros, so neither threads nor the rows beside it nor chunks change a bit.
#include "backends/cpu/attention.h"
#include "backends/cpu/attention_plan.h"
#include "backends/cpu/attention_softmax.h"
#include "backends/cpu/tile_registers.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

constexpr int kTile = 16;                        // rows of a tile register, and columns of f32
constexpr std::int64_t kTileBytes = 1024, kLine = 64;
constexpr int kStepTokens = 32;                  // tokens of one product of weights and values
constexpr int kSteps = kSplitTokens / kStepTokens, kSplitPages = kSplitTokens / kPageTokens;
constexpr std::int64_t kScoreStride = kSplitTokens * std::int64_t{sizeof(float)};

/// The compiler does not know that tile instructions read memory.
RLX_SIMD void written() { __asm__ volatile("" : : : "memory"); }

/// Which of 32 bf16 are infinite or NaN.
RLX_SIMD __mmask32 not_finite(__m512i v) {
  const __m512i exponent = _mm512_set1_epi16(0x7f80);
  return _mm512_cmpeq_epi16_mask(_mm512_and_si512(v, exponent), exponent);
}
RLX_SIMD f32x16 even_lanes(__m512i pairs) { return as_f32(shl<16>(i32x16{pairs})); }
RLX_SIMD f32x16 odd_lanes(__m512i pairs) {
  return as_f32(i32x16{pairs} & set1_i32(static_cast<int>(0xffff0000u)));
}

template <DType D>
class TileJob {
 public:
  TileJob(const Attention& op, const KernelArgs& a, std::int64_t head_dim)
      : op_(op), args_(a), pool_(*static_cast<const KvPool*>(a.in[1].data)), head_dim_(head_dim) {
    std::byte* area = a.scratch;
    const auto take = [&](std::int64_t bytes) {
      std::byte* const from = area;
      area += bytes;
      return from;
    };
    q_ = take(kTileRows * head_dim * 2);
    keys_ = take(kSplitTokens * head_dim * 2);
    values_ = take(kSplitTokens * head_dim * 2);
    weights_ = take(kTileRows * kSplitTokens * 2);
    scores_ = reinterpret_cast<float*>(take(kTileRows * kScoreStride));
    out_ = reinterpret_cast<float*>(take(kTileRows * head_dim * std::int64_t{sizeof(float)}));
  }

  void run(const Job& job) noexcept {
    job_ = job;
    rows_ = static_cast<int>(job.rows());
    job.find_seen(op_.window, seen_from_, seen_to_);
    for (int i = 0; i < rows_; ++i) {
      most_[i] = kLowest;
      sums_[i] = 0;
      load_query(i);
    }
    for (std::int64_t i = 0; i < kTileRows * head_dim_; i += kTile) store(out_ + i, zero_f32());
    for (std::int64_t s = 0; s < job.splits; ++s) run_split(job.first_split + s);
    finish();
  }

 private:
  std::int64_t row_of(int i) const noexcept { return job_.first_row + i / job_.heads; }
  std::int64_t lane_of(int i) const noexcept { return (job_.head0 + i % job_.heads) * head_dim_; }
  // Two tiles of rows share a tile of keys or values.
  int last_of_pair(int row) const noexcept { return (row + 2 * kTile < rows_ ? row + 2 * kTile : rows_) - 1; }
  int steps_of_head() const noexcept { return static_cast<int>(head_dim_ / kStepTokens); }

  /// Tiles of queries: [row / 16][lane / 32][16 rows][32 lanes].
  void load_query(int i) noexcept {
    const auto* from = at<const float>(args_.in[0], row_of(i) * args_.in[0].strides[0]) + lane_of(i);
    std::byte* to = q_ + i / kTile * kTile * head_dim_ * 2 + i % kTile * kLine;
    for (std::int64_t j = 0; j < head_dim_; j += 2 * kTile, to += kTileBytes)
      _mm512_storeu_si512(to, halves(load(from + j), load(from + j + kTile)));
  }

  void run_split(std::int64_t split) noexcept {
    const std::int64_t base = split * kSplitTokens;
    const auto inside = [base](std::int64_t token) {
      return static_cast<int>(token < base ? 0 : token > base + kSplitTokens ? kSplitTokens : token - base);
    };
    for (int i = 0; i < rows_; ++i) {
      from_[i] = inside(seen_from_[i]);
      to_[i] = inside(seen_to_[i]);
    }
    if (from_[0] >= to_[rows_ - 1]) return;
    unclean_ = false;
    for (int page = from_[0] / kPageTokens; page * kPageTokens < to_[rows_ - 1]; ++page)
      make_page(page, job_.pages[split * kSplitPages + page]);
    written();
    for (int row = 0; row < rows_; row += 2 * kTile) score_pair(row);
    soften();
    written();
    for (int row = 0; row < rows_; row += 2 * kTile) weigh_pair(row);
    if (unclean_) add_unclean();
  }

  // ---- keys and values of a page ----

  void make_page(int page, std::int64_t id) noexcept {
    const std::byte* const k = pool_.k + id * pool_.k_page + job_.kv_head * pool_.k_head;
    cached_[page] = pool_.v + id * pool_.v_page + job_.kv_head * pool_.v_head;
    const int begin = page * kPageTokens;
    const int first = from_[0] > begin ? from_[0] - begin : 0;
    const int last = to_[rows_ - 1] - begin < kPageTokens ? to_[rows_ - 1] - begin : kPageTokens;
    k_[page] = k;
    if constexpr (D == DType::q8_0) {
      k_[page] = keys_ + page * kPageTokens * head_dim_ * 2;
      for (int panel = first / kPanelTokens; panel * kPanelTokens < last; ++panel)
        widen_keys(k + panel * k_panel_bytes(D, head_dim_),
                   keys_ + (page * kPanels + panel) * kPanelTokens * head_dim_ * 2);
    }
    const bool all_see_all = from_[rows_ - 1] <= begin && to_[0] >= begin + kPageTokens;
    v_[page] = cached_[page];
    if (D == DType::bf16 && all_see_all) return;
    std::byte* const to = values_ + page * kPageTokens * head_dim_ * 2;
    v_[page] = to;
    for (int t = 0; t < kPageTokens; t += 2) {
      // What no row sees may be anything, and what only some see must not reach the others: 0 times infinity is NaN.
      __mmask32 keep = 0;
      if (t >= first && t < last) keep |= 0x55555555u;
      if (t + 1 >= first && t + 1 < last) keep |= 0xaaaaaaaau;
      for (std::int64_t i = 0; i < head_dim_; i += kTile) {
        const __m512i pairs = _mm512_maskz_mov_epi16(keep, value_pairs(cached_[page], t, i));
        const __mmask32 odd = all_see_all ? 0 : not_finite(pairs);
        unclean_ |= odd != 0;
        _mm512_storeu_si512(to + (t / 2 * head_dim_ + i) * 4, _mm512_maskz_mov_epi16(~odd, pairs));
      }
    }
  }
  /// Lanes i .. i + 15 of tokens t and t + 1 of a page, as pairs of bf16.
  RLX_SIMD __m512i value_pairs(const std::byte* v, int t, std::int64_t i) const noexcept {
    if constexpr (D == DType::bf16) {
      return _mm512_loadu_si512(v + (t / 2 * head_dim_ + i) * 4);
    } else {
      const auto value = [&](int token) __attribute__((always_inline)) {
        short d;
        __builtin_memcpy(&d, v + v_scale_offset(head_dim_, token, i / kKvGroup), sizeof d);
        return to_f32(load_s8(v + token * head_dim_ + i)) * f32x16{_mm512_cvtph_ps(_mm256_set1_epi16(d))};
      };
      return pairs_of(value(t), value(t + 1));
    }
  }
  /// A panel of q8_0 keys as lines of pairs.
  void widen_keys(const std::byte* panel, std::byte* to) const noexcept {
    const std::byte* line = panel + k_scale_bytes(head_dim_);
    for (std::int64_t i = 0; i < head_dim_; i += 4, line += kLine, to += 2 * kLine) {
      const auto* d = reinterpret_cast<const std::uint16_t*>(panel) + i / kKvGroup * kPanelTokens;
      const f32x16 scale = load_f16(d);
      const u8x64 four = load_line(line);
      store_pairs(to, to_f32(signed_byte<0>(four)) * scale, to_f32(signed_byte<1>(four)) * scale);
      store_pairs(to + kLine, to_f32(signed_byte<2>(four)) * scale, to_f32(signed_byte<3>(four)) * scale);
    }
  }

  // ---- scores ----

  /// Two sums and two factors that are zeroed after their last use, as in matmul_amx.avx512_bf16.cpp.
  RLX_AMX void score_pair(int row) noexcept {
    const std::int64_t tile_rows = kTile * head_dim_ * 2, panel = kPanelTokens * head_dim_ * 2;
    const std::byte* const q = q_ + row / kTile * tile_rows;
    for (int at = from_[row] / kPanelTokens * kPanelTokens; at < to_[last_of_pair(row)]; at += kPanelTokens) {
      const std::byte* const k = k_[at / kPageTokens] + at % kPageTokens / kPanelTokens * panel;
      _tile_zero(0);
      _tile_zero(1);
      for (int s = 0; s < steps_of_head(); ++s) {
        _tile_loadd(3, k + s * kTileBytes, kLine);
        _tile_loadd(2, q + s * kTileBytes, kLine);
        _tile_dpbf16ps(0, 2, 3);
        _tile_loadd(2, q + tile_rows + s * kTileBytes, kLine);
        _tile_dpbf16ps(1, 2, 3);
        _tile_zero(2);
        _tile_zero(3);
      }
      float* const scores = scores_ + row * kSplitTokens + at;
      _tile_stored(0, scores, kScoreStride);
      _tile_stored(1, scores + kTile * kSplitTokens, kScoreStride);
      _tile_zero(0);
      _tile_zero(1);
    }
  }

  // ---- softmax ----

  void soften() noexcept {
    for (int i = 0; i < rows_; ++i) {
      before_[i] = most_[i];
      const float here = from_[i] < to_[i] ? finish_scores(i) : kLowest;
      most_[i] = here > before_[i] ? here : before_[i];
    }
    weights_of(before_, most_, shrink_, rows_);
    for (int i = 0; i < rows_; ++i) soften_row(i);
  }
  /// Scale, cap and mask of row i; its maximum, in which a NaN does not count (its weight will be NaN).
  float finish_scores(int i) noexcept {
    float* const scores = scores_ + i * kSplitTokens;
    f32x16 most = set1(kLowest);
    for (int at = from_[i] / kTile * kTile; at < to_[i]; at += kTile) {
      const f32x16 s = seen_scores(op_, scores + at, from_[i] - at, to_[i] - at);
      store(scores + at, s);
      most = max(s, most);
    }
    return max_lane(most);
  }
  /// Weights as tiles [row / 16][token / 32][16 rows][32 tokens] of bf16; those of tokens that are not seen are 0.
  void soften_row(int i) noexcept {
    const float* const scores = scores_ + i * kSplitTokens;
    const f32x16 minus = finite_or_zero(set1(most_[i]));
    const auto weights = [&](int at) __attribute__((always_inline)) {
      if (at + kTile <= from_[i] || at >= to_[i]) return zero_f32();
      return exp(load(scores + at) - minus);
    };
    f32x16 sums = zero_f32();
    for (int s = 0; s < kSteps; ++s) {
      const int at = s * kStepTokens;
      __m512i pairs = _mm512_setzero_si512();
      if (at < to_[i] && at + kStepTokens > from_[i]) {
        pairs = halves(weights(at), weights(at + kTile));
        sums = sums + (even_lanes(pairs) + odd_lanes(pairs));
      }
      _mm512_storeu_si512(weights_ + (i / kTile * kSteps + s) * kTileBytes + i % kTile * kLine, pairs);
    }
    if (from_[i] >= to_[i]) return;
    if (most_[i] != before_[i]) {  // exp(0) = 1 otherwise
      sums_[i] *= shrink_[i];
      scale_row(out_ + i * head_dim_, head_dim_, shrink_[i]);
    }
    sums_[i] += sum(sums);
  }

  // ---- weighted sums of values ----

  RLX_AMX void weigh_pair(int row) noexcept {
    const int first = from_[row] / kStepTokens, last = (to_[last_of_pair(row)] + kStepTokens - 1) / kStepTokens;
    const std::byte* const weights = weights_ + row / kTile * kSteps * kTileBytes;
    const std::int64_t stride = head_dim_ * 4;  // of out and of pairs of tokens
    for (std::int64_t lane = 0; lane < head_dim_; lane += kTile) {
      float* const out = out_ + row * head_dim_ + lane;
      _tile_loadd(0, out, stride);
      _tile_loadd(1, out + kTile * head_dim_, stride);
      for (int s = first; s < last; ++s) {
        const int at = s * kStepTokens;
        _tile_loadd(3, v_[at / kPageTokens] + at % kPageTokens / 2 * stride + lane * 4, stride);
        _tile_loadd(2, weights + s * kTileBytes, kLine);
        _tile_dpbf16ps(0, 2, 3);
        _tile_loadd(2, weights + (kSteps + s) * kTileBytes, kLine);
        _tile_dpbf16ps(1, 2, 3);
        _tile_zero(2);
        _tile_zero(3);
      }
      _tile_stored(0, out, stride);
      _tile_stored(1, out + kTile * head_dim_, stride);
      _tile_zero(0);
      _tile_zero(1);
    }
  }
  /// Values that are not finite were left out of tiles that some rows do not see: those that do get them here.
  void add_unclean() noexcept {
    for (int t = from_[0]; t < to_[rows_ - 1]; ++t) {
      const int page = t / kPageTokens;
      if (v_[page] == cached_[page]) continue;
      for (std::int64_t lane = 0; lane < head_dim_; lane += kTile) {
        const __m512i pairs = value_pairs(cached_[page], t % kPageTokens / 2 * 2, lane);
        const __mmask32 odd = not_finite(pairs) & (t % 2 == 0 ? 0x55555555u : 0xaaaaaaaau);
        if (odd == 0) continue;
        const __m512i kept = _mm512_maskz_mov_epi16(odd, pairs);
        const f32x16 value = t % 2 == 0 ? even_lanes(kept) : odd_lanes(kept);
        for (int i = 0; i < rows_; ++i) {
          if (t < from_[i] || t >= to_[i]) continue;
          const auto* of = reinterpret_cast<const std::uint16_t*>(
              weights_ + (i / kTile * kSteps + t / kStepTokens) * kTileBytes + i % kTile * kLine);
          const f32x16 weight = as_f32(set1_i32(static_cast<int>(of[t % kStepTokens]) << 16));
          float* const out = out_ + i * head_dim_ + lane;
          store(out, fma(value, weight, load(out)));
        }
      }
    }
  }

  void finish() noexcept {
    for (int i = 0; i < rows_; ++i) {
      auto* y = at<float>(args_.out[0], row_of(i) * args_.out[0].strides[0]) + lane_of(i);
      const f32x16 by = set1(1.0f / sums_[i]);
      for (std::int64_t j = 0; j < head_dim_; j += kTile) store(y + j, load(out_ + i * head_dim_ + j) * by);
    }
  }

  const Attention& op_;
  const KernelArgs& args_;
  const KvPool& pool_;
  std::int64_t head_dim_;
  std::byte *q_, *keys_, *values_, *weights_;
  float *scores_, *out_;
  Job job_;
  int rows_ = 0;
  bool unclean_ = false;
  std::int64_t seen_from_[kTileRows], seen_to_[kTileRows];   // tokens that a row sees
  int from_[kTileRows], to_[kTileRows];                      // the same inside the split at hand
  const std::byte *k_[kSplitPages], *v_[kSplitPages], *cached_[kSplitPages];  // of its pages; v_: what tiles read
  float most_[kTileRows], sums_[kTileRows], before_[kTileRows], shrink_[kTileRows];
};

template <DType D>
void attention_tiles(const Attention& op, const KernelArgs& a) noexcept {
  Plan plan(op, a);
  TileJob<D> tiles(op, a, plan.head_dim);
  auto* next = reinterpret_cast<std::int32_t*>(a.shared);
  configure();
  for (;;) {
    const std::int64_t j = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED);
    if (j >= plan.jobs) break;
    tiles.run(plan.job(j));
  }
  release();
}

bool many_rows(const KernelArgs& a) noexcept {
  const std::int64_t batch = a.in[3].dims[0];
  return a.in[2].as<const std::int32_t>()[batch] >= kAmxAttentionRows * batch;
}
void attention_amx_bf16(const Attention& op, const KernelArgs& a) noexcept {
  many_rows(a) ? attention_tiles<DType::bf16>(op, a) : attention_bf16(&op, a);
}
void attention_amx_q8_0(const Attention& op, const KernelArgs& a) noexcept {
  many_rows(a) ? attention_tiles<DType::q8_0>(op, a) : avx512::attention_q8_0(&op, a);
}

constexpr Kernel kTable[] = {
    kernel<Attention, attention_amx_bf16>("attention_amx_bf16", Isa::amx, accepts_attention_amx_bf16,
                                          attention_amx_scratch),
    kernel<Attention, attention_amx_q8_0>("attention_amx_q8_0", Isa::amx, accepts_attention_amx_q8_0,
                                          attention_amx_scratch),
};

}  // namespace

KernelTable amx_attention_kernels() { return {kTable, sizeof(kTable) / sizeof(kTable[0])}; }

}  // namespace rlx::cpu::RLX_ISA_LEVEL
