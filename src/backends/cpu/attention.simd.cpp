// Attention over the paged cache with online softmax (https://arxiv.org/abs/2205.14135): splits of
// 128 tokens at absolute positions, each two pages with its own running maximum; the splits of a
// row are merged one by one in increasing position.
#include "backends/cpu/attention.h"

#include "backends/cpu/attention_plan.h"
#include "backends/cpu/attention_softmax.h"
#include "backends/cpu/attention_tile.h"
#include "backends/cpu/quantize_group.h"
#include "backends/cpu/table.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

// The result of a split for some rows: out[r] = sum of p * v, sums[r] = sum of p, p = exp(score - most[r]).
struct Partial {
  float *most, *sums, *out;
};
Partial partial_at(float* floats, std::int64_t rows) noexcept { return {floats, floats + rows, floats + 2 * rows}; }

template <int Most, typename F>
RLX_SIMD void for_rows(int n, F f) {
  if (n == Most) return f(Index<Most>{});
  if constexpr (Most > 1) for_rows<Most - 1>(n, f);
}

template <DType D>
constexpr int kScoreRows = D == DType::q8_0 ? kRowsQ8 : kRows;
template <DType D>
constexpr int score_vectors(int rows) {
  if (D != DType::q8_0) return vectors_at_once(rows);
  return kRowsQ8 > 1 && rows == 1 ? 2 : 1;
}

// One thread's tile: the rows of a job in scratch.
template <DType D>
class Tile {
 public:
  Tile(const Attention& op, const KernelArgs& a, std::int64_t head_dim)
      : op_(op), args_(a), pool_(*static_cast<const KvPool*>(a.in[1].data)), head_dim_(head_dim),
          width_(kv_width(head_dim)) {
    auto* at_float = reinterpret_cast<float*>(a.scratch);
    const auto take = [&](std::int64_t n) {
      float* const area = at_float;
      at_float += n;
      return area;
    };
    q_ = take(kTileRows * width_);
    split_ = take(kTileRows * width_);
    out_ = take(kTileRows * width_);
    scores_ = take(kTileRows * kPageTokens);
    wide_k_ = take(kPageTokens * head_dim_);
    wide_v_ = take(kPageTokens * width_);
    v_scales_ = take(kPageTokens * round_up(head_dim_, kKvGroup) / kKvGroup + 16);
  }

  void begin(const Job& job) noexcept {
    job_ = job;
    rows_ = static_cast<int>(job.rows());
    job.find_seen(op_.window, seen_from_, seen_to_);
    for (int i = 0; i < rows_; ++i) load_query(i);
  }

  /// All splits in turn, and the result.
  void run_all() noexcept {
    clear(total());
    const Partial part{most_, sums_, split_};
    for (std::int64_t s = 0; s < job_.splits; ++s) {
      run_split(job_.first_split + s, part);
      merge(job_.first_split + s, part);
    }
    finish();
  }

  /// The result from the partials of all splits, one after the other.
  void merge_all(float* partials, std::int64_t floats_each) noexcept {
    clear(total());
    for (std::int64_t s = 0; s < job_.splits; ++s)
      merge(job_.first_split + s, partial_at(partials + s * floats_each, rows_));
    finish();
  }

  void run_split(std::int64_t split, const Partial& part) noexcept {
    clear(part);
    for (std::int64_t page = split * 2; page < split * 2 + 2; ++page)
      if (page * kPageTokens < seen_to_[rows_ - 1] && (page + 1) * kPageTokens > seen_from_[0]) run_page(page, part);
  }

 private:
  static constexpr bool kBf16Pairs = kPairs && D == DType::bf16;

  Partial total() noexcept { return {total_most_, total_sums_, out_}; }
  void clear(const Partial& part) noexcept {
    for (int i = 0; i < rows_; ++i) {
      part.most[i] = kLowest;
      part.sums[i] = 0;
    }
    for (std::int64_t i = 0; i < rows_ * width_; i += 16) store(part.out + i, zero_f32());
  }

  // Row i of the job: head head0 + i % heads of its token i / heads.
  std::int64_t row_of(int i) const noexcept { return job_.first_row + i / job_.heads; }
  std::int64_t lane_of(int i) const noexcept { return (job_.head0 + i % job_.heads) * head_dim_; }

  void load_query(int i) noexcept {
    const auto* from = at<const float>(args_.in[0], row_of(i) * args_.in[0].strides[0]) + lane_of(i);
    float* to = q_ + i * width_;
    if constexpr (D == DType::q8_0) {
      auto* q = reinterpret_cast<signed char*>(to);
      auto* d = reinterpret_cast<float*>(q + head_dim_);
      auto* sums = reinterpret_cast<std::int32_t*>(d + head_dim_ / kKvGroup);
      for (std::int64_t g = 0; g < head_dim_ / kKvGroup; ++g) {
        const Group32 group = quantize_group(load(from + g * kKvGroup), load(from + g * kKvGroup + 16));
        store_s8(q + g * kKvGroup, group.a);
        store_s8(q + g * kKvGroup + 16, group.b);
        d[g] = group.d;
        sums[g] = sum(group.a + group.b);
      }
    } else {
      for (std::int64_t j = 0; j < head_dim_; j += 16) {
        const int n = head_dim_ - j < 16 ? static_cast<int>(head_dim_ - j) : 16;
        const f32x16 v = n == 16 ? load(from + j) : load_partial(from + j, n);
        if constexpr (kBf16Pairs)
          store_bf16(reinterpret_cast<std::uint16_t*>(to) + j, v);
        else
          store(to + j, D == DType::bf16 ? as_f32(shl<16>(f32_to_bf16_bits(v))) : v);
      }
    }
  }

  void run_page(std::int64_t page, const Partial& part) noexcept {
    const std::int64_t base = page * kPageTokens;
    const auto inside = [base](std::int64_t token) {
      return static_cast<int>(token < base ? 0 : token > base + kPageTokens ? kPageTokens : token - base);
    };
    for (int i = 0; i < rows_; ++i) {
      from_[i] = inside(seen_from_[i]);
      to_[i] = inside(seen_to_[i]);
    }
    const std::int64_t id = job_.pages[page];
    const bool more = (page + 1) * kPageTokens < seen_to_[rows_ - 1];
    const std::int64_t ahead = more ? job_.pages[page + 1] - id : 0;
    Page cached{pool_.k + id * pool_.k_page + job_.kv_head * pool_.k_head,
                pool_.v + id * pool_.v_page + job_.kv_head * pool_.v_head,
                v_scales_,
                head_dim_,
                width_,
                k_panel_bytes(D, head_dim_),
                ahead * pool_.k_page,
                ahead * pool_.v_page};
    if constexpr (D == DType::q8_0) {
      const auto* bits = reinterpret_cast<const std::uint16_t*>(cached.v + v_scale_offset(head_dim_, 0, 0));
      const std::int64_t n = kPageTokens * (head_dim_ / kKvGroup);
      for (std::int64_t i = 0; i < n; i += 16) store(v_scales_ + i, load_f16(bits + i));
    }
    const int first = from_[0], last = to_[rows_ - 1];
    // Many rows share the conversion of K and V to f32; the arithmetic is the same.
    const bool widen = D != DType::f32 && !kBf16Pairs && rows_ > 2 * kRows;
    Page wide = cached;
    wide.v = reinterpret_cast<const std::byte*>(wide_v_);
    wide.next_k = wide.next_v = 0;
    if constexpr (D == DType::f16 || D == DType::bf16) {
      wide.k = reinterpret_cast<const std::byte*>(wide_k_);
      wide.panel_bytes = k_panel_bytes(DType::f32, head_dim_);
      if (widen) widen_keys<D>(cached, first / kPanelTokens, (last + kPanelTokens - 1) / kPanelTokens, wide_k_);
    }
    if constexpr (D != DType::f32) {
      if (widen) widen_values<D>(cached, first, last, wide_v_);
    }
    constexpr DType kWideKey = D == DType::q8_0 ? DType::q8_0 : DType::f32;
    if (widen && !kBf16Pairs)
      score_rows<kWideKey>(wide);
    else
      score_rows<D>(cached);
    soften_rows(part);
    if (widen && !kBf16Pairs)
      weigh_rows<DType::f32>(wide, part.out);
    else
      weigh_rows<D>(cached, part.out);
  }

  // ---- scores ----
  template <DType K>
  void score_rows(const Page& page) noexcept {
    constexpr int kMost = kScoreRows<K>;
    const int first = from_[0] / kPanelTokens, last = (to_[rows_ - 1] + kPanelTokens - 1) / kPanelTokens;
    const int full = rows_ / kMost * kMost;
    score_block<K, kMost>(page, 0, full, first, last);
    for_rows<kMost>(rows_ - full, [&](auto n) { score_block<K, int{n}>(page, full, rows_, first, last); });
  }
  // Rows begin .. end - 1 (a multiple of R) with panels first .. last - 1: a panel stays in the
  // nearest cache for all rows.
  template <DType K, int R>
  void score_block(const Page& page, int begin, int end, int first, int last) noexcept {
    constexpr int kMany = score_vectors<K>(R);
    int n = 1;
    for (int panel = first; panel < last; panel += n) {
      n = panel + kMany <= last ? kMany : 1;
      for (int i = begin; i < end; i += R) {
        if (to_[i + R - 1] <= panel * kPanelTokens || from_[i] >= (panel + n) * kPanelTokens) continue;
        const float* q = q_ + i * width_;
        float* scores = scores_ + i * kPageTokens;
        if (n == kMany)
          score_panels<K, R, kMany>(q, page, panel, scores);
        else
          score_panels<K, R, 1>(q, page, panel, scores);
      }
    }
  }

  // ---- softmax ----
  // Scores to weights exp(score - most), with the running maximum, sum and output of each row
  // brought to its new maximum.
  void soften_rows(const Partial& part) noexcept {
    for (int i = 0; i < rows_; ++i) {
      before_[i] = part.most[i];
      const float here = from_[i] < to_[i] ? finish_scores(i) : kLowest;
      now_[i] = here > before_[i] ? here : before_[i];
    }
    weights_of(before_, now_, shrink_, rows_);
    for (int i = 0; i < rows_; ++i)
      if (from_[i] < to_[i]) soften_row(i, part);
  }

  // Scale, cap and mask of row i; its maximum, in which a NaN does not count (its weight will be NaN).
  float finish_scores(int i) noexcept {
    float* scores = scores_ + i * kPageTokens;
    f32x16 most = set1(kLowest);
    const int last = (to_[i] + kPanelTokens - 1) / kPanelTokens;
    for (int panel = from_[i] / kPanelTokens; panel < last; ++panel) {
      const int at = panel * kPanelTokens;
      const f32x16 s = seen_scores(op_, scores + at, from_[i] - at, to_[i] - at);
      store(scores + at, s);
      most = max(s, most);
    }
    return max_lane(most);
  }

  void soften_row(int i, const Partial& part) noexcept {
    float* scores = scores_ + i * kPageTokens;
    const f32x16 minus = finite_or_zero(set1(now_[i]));
    f32x16 sums = zero_f32();
    const int last = (to_[i] + kPanelTokens - 1) / kPanelTokens;
    for (int panel = from_[i] / kPanelTokens; panel < last; ++panel) {
      f32x16 p = exp(load(scores + panel * kPanelTokens) - minus);
      if constexpr (D == DType::bf16) p = as_f32(shl<16>(f32_to_bf16_bits(p)));
      sums = sums + p;
      if constexpr (kBf16Pairs)
        // Weights of a panel overwrite scores of panels before it alone.
        store_low16(reinterpret_cast<std::uint16_t*>(scores) + panel * kPanelTokens, shr<16>(as_i32(p)));
      else
        store(scores + panel * kPanelTokens, p);
    }
    if (now_[i] != before_[i]) {  // exp(0) = 1 otherwise
      part.sums[i] *= shrink_[i];
      scale_row(part.out + i * width_, width_, shrink_[i]);
      part.most[i] = now_[i];
    }
    part.sums[i] += sum(sums);
  }

  // ---- weighted sums of values ----
  template <DType V>
  void weigh_rows(const Page& page, float* out) noexcept {
    const int full = rows_ / kRows * kRows;
    weigh_block<V, kRows>(page, 0, full, out);
    for_rows<kRows>(rows_ - full, [&](auto n) { weigh_block<V, int{n}>(page, full, rows_, out); });
  }
  template <DType V, int R>
  void weigh_block(const Page& page, int begin, int end, float* out) noexcept {
    constexpr int kMany = vectors_at_once(R);
    int n = 16;
    for (std::int64_t lane = 0; lane < width_; lane += n) {
      n = lane + kMany * 16 <= width_ ? kMany * 16 : 16;
      for (int i = begin; i < end; i += R) {
        if (n == kMany * 16)
          weigh<V, R, kMany>(page, lane, i, out);
        else
          weigh<V, R, 1>(page, lane, i, out);
      }
    }
  }
  // Tokens that all R rows see are taken together, those before and after row by row: a weight of 0
  // times a value that is not finite would be NaN.
  template <DType V, int R, int N>
  void weigh(const Page& page, std::int64_t lane, int i, float* out) noexcept {
    int from = from_[i + R - 1], to = to_[i];
    if constexpr (kBf16Pairs) {
      from += from % 2;
      to -= to % 2;
    }
    if (from >= to) from = to = kPageTokens;  // nothing in common: all of it row by row, in the first loop
    const float* p = scores_ + i * kPageTokens;
    float* o = out + i * width_;
    for (int r = 0; r < R; ++r) {
      const int until = to_[i + r] < from ? to_[i + r] : from;
      if (from_[i + r] < until)
        add_values<V, 1, N>(p + r * kPageTokens, page, lane, from_[i + r], until, o + r * width_);
    }
    if (from < to) add_values<V, R, N>(p, page, lane, from, to, o);
    for (int r = 0; r < R; ++r)
      if (to < to_[i + r]) add_values<V, 1, N>(p + r * kPageTokens, page, lane, to, to_[i + r], o + r * width_);
  }

  // ---- merge ----
  void merge(std::int64_t split, const Partial& part) noexcept {
    for (int i = 0; i < rows_; ++i) {
      before_[i] = part.most[i];
      now_[i] = part.most[i] > total_most_[i] ? part.most[i] : total_most_[i];
    }
    weights_of(total_most_, now_, shrink_, rows_);
    weights_of(before_, now_, add_, rows_);
    for (int i = 0; i < rows_; ++i) {
      if (seen_to_[i] <= split * kSplitTokens || seen_from_[i] >= (split + 1) * kSplitTokens) continue;
      total_most_[i] = now_[i];
      total_sums_[i] = total_sums_[i] * shrink_[i] + part.sums[i] * add_[i];
      float* out = out_ + i * width_;
      const float* from = part.out + i * width_;
      const f32x16 old = set1(shrink_[i]), add = set1(add_[i]);
      for (std::int64_t j = 0; j < width_; j += 16) store(out + j, fma(load(from + j), add, load(out + j) * old));
    }
  }

  void finish() noexcept {
    for (int i = 0; i < rows_; ++i) {
      auto* y = at<float>(args_.out[0], row_of(i) * args_.out[0].strides[0]) + lane_of(i);
      const f32x16 by = set1(1.0f / total_sums_[i]);
      for (std::int64_t j = 0; j < head_dim_; j += 16) {
        const f32x16 v = load(out_ + i * width_ + j) * by;
        if (j + 16 <= head_dim_)
          store(y + j, v);
        else
          store_partial(y + j, v, static_cast<int>(head_dim_ - j));
      }
    }
  }

  const Attention& op_;
  const KernelArgs& args_;
  const KvPool& pool_;
  std::int64_t head_dim_, width_;
  float *q_, *split_, *out_, *scores_, *wide_k_, *wide_v_, *v_scales_;
  Job job_;
  int rows_ = 0;
  std::int64_t seen_from_[kTileRows], seen_to_[kTileRows];  // tokens that a row sees
  int from_[kTileRows], to_[kTileRows];                     // the same inside the page at hand
  float most_[kTileRows], sums_[kTileRows], total_most_[kTileRows] = {}, total_sums_[kTileRows];
  float before_[kTileRows] = {}, now_[kTileRows] = {}, shrink_[kTileRows], add_[kTileRows];  // of the step at hand
};

// Jobs from a shared counter: results do not depend on who computes them.
template <DType D>
void run_jobs(Plan& plan, Tile<D>& tile, const KernelArgs& a) noexcept {
  auto* next = reinterpret_cast<std::int32_t*>(a.shared);
  for (;;) {
    const std::int64_t j = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED);
    if (j >= plan.jobs) return;
    tile.begin(plan.job(j));
    tile.run_all();
  }
}

// Splits in runs of equal length; who finishes the last split of a job merges its partials.
template <DType D>
void run_splits(Plan& plan, Tile<D>& tile, const KernelArgs& a, std::int64_t heads) noexcept {
  auto* done = reinterpret_cast<std::int32_t*>(a.shared) + 1;
  auto* partials = reinterpret_cast<float*>(a.shared + counter_bytes(std::int64_t{kSplitModeTokens} * heads));
  const Range mine = part(a, plan.splits);
  std::int64_t before = 0;
  for (std::int64_t j = 0; j < plan.jobs && before < mine.end; ++j) {
    const Job job = plan.job(j);
    const std::int64_t each = partial_floats(job.rows(), plan.head_dim);
    const std::int64_t begin = mine.begin > before ? mine.begin - before : 0;
    const std::int64_t end = mine.end - before < job.splits ? mine.end - before : job.splits;
    if (begin < end) {
      tile.begin(job);
      for (std::int64_t s = begin; s < end; ++s)
        tile.run_split(job.first_split + s, partial_at(partials + s * each, job.rows()));
      const auto mine_done = static_cast<std::int32_t>(end - begin);
      if (__atomic_add_fetch(done + j, mine_done, __ATOMIC_ACQ_REL) == job.splits) tile.merge_all(partials, each);
    }
    partials += job.splits * each;
    before += job.splits;
  }
}

// q, y: f32 [rows, heads * head_dim]; cache: [kv_heads, head_dim]
template <DType D>
void attention(const Attention& op, const KernelArgs& a) noexcept {
  Plan plan(op, a);
  Tile<D> tile(op, a, plan.head_dim);
  if (plan.by_split)
    run_splits(plan, tile, a, op.heads);
  else
    run_jobs(plan, tile, a);
}

constexpr Isa kIsa = Isa::RLX_ISA_LEVEL;
constexpr Kernel kTable[] = {
#if !defined(RLX_ISA_avx512_bf16)  // that level differs from avx512 in bf16 alone
    kernel<Attention, attention<DType::f32>>(RLX_ROW_NAME("attention_f32"), kIsa,
        accepts_attention_f32, attention_scratch),
    kernel<Attention, attention<DType::f16>>(RLX_ROW_NAME("attention_f16"), kIsa,
        accepts_attention_f16, attention_scratch),
    kernel<Attention, attention<DType::q8_0>>(RLX_ROW_NAME("attention_q8_0"), kIsa,
        accepts_attention_q8_0, attention_scratch),
#endif
    kernel<Attention, attention<DType::bf16>>(RLX_ROW_NAME("attention_bf16"), kIsa,
        accepts_attention_bf16, attention_scratch),
};

}  // namespace

#if defined(RLX_ISA_avx512)
void attention_q8_0(const void* op, const KernelArgs& a) noexcept {
  attention<DType::q8_0>(*static_cast<const Attention*>(op), a);
}
#elif defined(RLX_ISA_avx512_bf16)
void attention_bf16(const void* op, const KernelArgs& a) noexcept {
  attention<DType::bf16>(*static_cast<const Attention*>(op), a);
}
#endif
KernelTable attention_kernels() { return {kTable, sizeof(kTable) / sizeof(kTable[0])}; }

}  // namespace rlx::cpu::RLX_ISA_LEVEL
