// Attention over the rows of a step. A job is one head of up to 16 queries of a sequence: tiles of 64 keys, counted
// from the start of the sequence, are transposed once for the job, and the softmax runs over the tiles with a running
// maximum. What a row gets depends on its sequence alone: the same bits for any batch and any number of threads.
#include "backends/cpu/dense_attention.h"

#include "backends/cpu/simd.h"
#include "backends/cpu/simd_math.h"
#include "backends/cpu/table.h"
#include "backends/cpu/work.h"
#include "ops/dense_attention.h"

#if !defined(RLX_ISA_avx512_bf16)  // that level has nothing here that avx512 lacks
namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

constexpr float kLowest = -3.4028235e38f;
constexpr int kRowGroup = 4;  // rows whose sums stay in registers

inline std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
inline std::int64_t most(std::int64_t a, std::int64_t b) { return a > b ? a : b; }

/// The rows of sequence b, kept inside the tensor whatever the starts say.
inline Range sequence_rows(const TensorView& starts, std::int64_t b, std::int64_t rows) {
  const auto* s = static_cast<const std::int32_t*>(starts.data);
  const std::int64_t begin = most(0, least(s[b], rows));
  return {begin, most(begin, least(s[b + 1], rows))};
}

/// One job, and the areas of this worker.
struct DenseJob {
  const DenseAttention& op;
  const KernelArgs& a;
  std::int64_t size, value_size, lanes;  // lanes: value_size in whole vectors
  float *tile, *scores, *sums;
  float top[kDenseQueries], total[kDenseQueries];

  Range keys{0, 0};
  std::int64_t head = 0, kv_head = 0;
  std::int64_t first = 0, first_at = 0, count = 0;  // rows first .. first + count, the first at position first_at

  DenseJob(const DenseAttention& o, const KernelArgs& args)
      : op(o),
        a(args),
        size(args.in[0].dims[1] / o.heads),
        value_size(args.in[2].dims[1] / o.kv_heads),
        lanes(padded_lanes(value_size)),
        tile(reinterpret_cast<float*>(args.scratch)),
        scores(tile + size * kDenseKeys),
        sums(scores + kDenseQueries * kDenseKeys) {}

  std::int64_t key_count() const { return keys.end - keys.begin; }

  /// The keys that a position sees.
  Range visible(std::int64_t at) const {
    Range seen{0, key_count()};
    if (op.causal) seen.end = least(seen.end, at + 1);
    if (op.window > 0) {
      seen.begin = most(0, at - op.window + 1);
      seen.end = least(seen.end, at + op.window);
    }
    return seen;
  }

  /// tile[d][key] of keys start .. start + 64; zeros beyond the last.
  void transpose(std::int64_t start) {
    const std::int64_t n = least(kDenseKeys, key_count() - start);
    for (std::int64_t key = 0; key < n; ++key) {
      const float* k = a.in[1].row<const float>(keys.begin + start + key) + kv_head * size;
      for (std::int64_t d = 0; d < size; ++d) tile[d * kDenseKeys + key] = k[d];
    }
    for (std::int64_t d = 0; n < kDenseKeys && d < size; ++d)
      for (std::int64_t key = n; key < kDenseKeys; ++key) tile[d * kDenseKeys + key] = 0.0f;
  }

  /// scores[row][key] = q k^T for the rows of a group.
  void products(std::int64_t group) {
    const float* q[kRowGroup];
    for (int i = 0; i < kRowGroup; ++i)  // beyond the last row: that one again
      q[i] = a.in[0].row<const float>(first + least(group + i, count - 1)) + head * size;
    for (int key = 0; key < kDenseKeys; key += 32) {
      f32x16 lo[kRowGroup], hi[kRowGroup];
      for (int i = 0; i < kRowGroup; ++i) lo[i] = hi[i] = zero_f32();
      for (std::int64_t d = 0; d < size; ++d) {
        const f32x16 x = load(tile + d * kDenseKeys + key), y = load(tile + d * kDenseKeys + key + 16);
        for (int i = 0; i < kRowGroup; ++i) {
          const f32x16 s = set1(q[i][d]);
          lo[i] = fma(s, x, lo[i]);
          hi[i] = fma(s, y, hi[i]);
        }
      }
      for (int i = 0; i < kRowGroup; ++i) {
        store(scores + (group + i) * kDenseKeys + key, lo[i]);
        store(scores + (group + i) * kDenseKeys + key + 16, hi[i]);
      }
    }
  }

  /// line[key] += the bias of 64 keys from `start` for a query position.
  void add_bias(float* line, std::int64_t at, std::int64_t start) const {
    const TensorView& bias = a.in[5];
    const std::int64_t h = bias.dims[0] == 1 ? 0 : head;
    if (op.bias == AttentionBias::distances) {
      const float* by_distance = bias.row<const float>(h);
      const std::int64_t n = bias.dims[1] / 2;
      for (int key = 0; key < kDenseKeys; ++key) line[key] += by_distance[most(-n, least(start + key - at, n)) + n];
      return;
    }
    const std::int64_t row = most(0, least(at, bias.dims[1] - 1)), last = bias.dims[2] - 1;
    const auto* by_key = rlx::cpu::RLX_ISA_LEVEL::at<const float>(bias, h * bias.strides[0] + row * bias.strides[1]);
    for (int key = 0; key < kDenseKeys; ++key) line[key] += by_key[least(start + key, last)];
  }

  /// Turns the scores of a row into weights below the running maximum, and rescales what the row has so far.
  void weigh(std::int64_t row, std::int64_t start) {
    float* line = scores + row * kDenseKeys;
    const std::int64_t position = first_at + row;
    const f32x16 hidden = set1(-__builtin_inff());
    for (int key = 0; key < kDenseKeys; key += 16) {
      f32x16 s = load(line + key) * set1(op.scale);
      if (op.softcap > 0) s = softcap(s, op.softcap);
      store(line + key, s);
    }
    if (op.bias != AttentionBias::none) add_bias(line, position, start);
    const Range seen = visible(position);
    f32x16 largest = set1(kLowest);
    for (int key = 0; key < kDenseKeys; key += 16) {
      const std::int64_t base = start + key;
      f32x16 s = select(first_lanes(static_cast<int>(most(0, least(seen.end - base, 16)))), load(line + key), hidden);
      s = select(first_lanes(static_cast<int>(most(0, least(seen.begin - base, 16)))), hidden, s);
      largest = max(s, largest);
      store(line + key, s);
    }
    const float before = top[row], now = max_lane(max(largest, set1(before)));
    f32x16 weights = zero_f32();
    for (int key = 0; key < kDenseKeys; key += 16) {
      const f32x16 w = exp(load(line + key) - set1(now));
      weights = weights + w;
      store(line + key, w);
    }
    const f32x16 shrink = exp(set1(before - now));
    top[row] = now;
    total[row] = total[row] * max_lane(shrink) + sum(weights);
    for (std::int64_t i = 0; i < lanes; i += 16) {
      float* at_lane = sums + row * lanes + i;
      store(at_lane, load(at_lane) * shrink);
    }
  }

  /// sums[row] += weights v for the rows of a group.
  void accumulate(std::int64_t group, std::int64_t start) {
    const std::int64_t n = least(kDenseKeys, key_count() - start);
    const float* weights = scores + group * kDenseKeys;
    for (std::int64_t lane = 0; lane < value_size; lane += 16) {
      const int width = static_cast<int>(least(16, value_size - lane));
      f32x16 acc[kRowGroup];
      for (int i = 0; i < kRowGroup; ++i) acc[i] = load(sums + (group + i) * lanes + lane);
      for (std::int64_t key = 0; key < n; ++key) {
        const float* v = a.in[2].row<const float>(keys.begin + start + key) + kv_head * value_size + lane;
        const f32x16 x = width == 16 ? load(v) : load_partial(v, width);
        for (int i = 0; i < kRowGroup; ++i) acc[i] = fma(set1(weights[i * kDenseKeys + key]), x, acc[i]);
      }
      for (int i = 0; i < kRowGroup; ++i) store(sums + (group + i) * lanes + lane, acc[i]);
    }
  }

  void run() {
    for (int i = 0; i < kDenseQueries; ++i) {
      top[i] = kLowest;
      total[i] = 0.0f;
    }
    for (std::int64_t i = 0; i < kDenseQueries * lanes; i += 16) store(sums + i, zero_f32());
    const Range low = visible(first_at), high = visible(first_at + count - 1);
    for (std::int64_t start = low.begin / kDenseKeys * kDenseKeys; start < high.end; start += kDenseKeys) {
      transpose(start);
      for (std::int64_t group = 0; group < count; group += kRowGroup) {
        products(group);
        for (std::int64_t row = group; row < group + kRowGroup; ++row) weigh(row, start);
        accumulate(group, start);
      }
    }
    for (std::int64_t row = 0; row < count; ++row) {
      float* y = a.out[0].row<float>(first + row) + head * value_size;
      const f32x16 scale = set1(total[row] == 0.0f ? 0.0f : 1.0f / total[row]);
      for (std::int64_t lane = 0; lane < value_size; lane += 16)
        store_partial(y + lane, load(sums + row * lanes + lane) * scale,
                      static_cast<int>(least(16, value_size - lane)));
    }
  }
};

/// Rows begin .. end of y become zeros.
inline void clear_rows(const TensorView& y, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r)
    for (std::int64_t i = 0; i < y.dims[1]; ++i) y.row<float>(r)[i] = 0.0f;
}

// q: [q_rows, heads * d]; k: [kv_rows, kv_heads * d]; v: [kv_rows, kv_heads * e]; y: [q_rows, heads * e]
void dense_attention(const DenseAttention& op, const KernelArgs& a) noexcept {
  const std::int64_t batch = a.in[3].dims[0] - 1, rows = a.in[0].dims[0], kv_rows = a.in[1].dims[0];
  std::int64_t jobs = 0, covered = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    const Range q = sequence_rows(a.in[3], b, rows);
    jobs += (q.end - q.begin + kDenseQueries - 1) / kDenseQueries * op.heads;
    if (a.thread == 0) clear_rows(a.out[0], covered, q.begin);
    covered = most(covered, q.end);
  }
  if (a.thread == 0) clear_rows(a.out[0], covered, rows);
  const Range mine = part(a, jobs);
  DenseJob job(op, a);
  std::int64_t before = 0;
  for (std::int64_t b = 0; b < batch && before < mine.end; ++b) {
    const Range q = sequence_rows(a.in[3], b, rows);
    const std::int64_t queries = q.end - q.begin, here = (queries + kDenseQueries - 1) / kDenseQueries * op.heads;
    job.keys = sequence_rows(a.in[4], b, kv_rows);
    const std::int64_t shift = op.causal ? job.key_count() - queries : 0;
    for (std::int64_t i = most(0, mine.begin - before); i < least(here, mine.end - before); ++i) {
      const std::int64_t block = i / op.heads * kDenseQueries;
      job.head = i % op.heads;
      job.kv_head = job.head / (op.heads / op.kv_heads);
      job.first = q.begin + block;
      job.first_at = block + shift;
      job.count = least(kDenseQueries, queries - block);
      job.run();
    }
    before += here;
  }
}

/// What a column of sequence rows becomes: 16 lanes of it.
RLX_SIMD f32x16 pool_lanes(SequencePooling kind, const TensorView& x, Range rows, std::int64_t lane, int width) {
  f32x16 pooled = zero_f32();
  const std::int64_t count = rows.end - rows.begin;
  if (kind == SequencePooling::first) rows.end = least(rows.end, rows.begin + 1);
  if (kind == SequencePooling::last) rows.begin = most(rows.begin, rows.end - 1);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const float* from = x.row<const float>(r) + lane;
    const f32x16 v = width == 16 ? load(from) : load_partial(from, width);
    if (kind == SequencePooling::max)
      pooled = r == rows.begin ? v : max_nan(pooled, v);
    else
      pooled = pooled + v;
  }
  return kind == SequencePooling::mean && count > 0 ? pooled / set1(static_cast<float>(count)) : pooled;
}

// x: [rows, n]; y: [batch, n]
void pool_sequences(const PoolSequences& op, const KernelArgs& a) noexcept {
  const TensorView &x = a.in[0], &y = a.out[0];
  const Range mine = part(a, y.dims[0]);
  for (std::int64_t b = mine.begin; b < mine.end; ++b) {
    const Range rows = sequence_rows(a.in[1], b, x.dims[0]);
    for (std::int64_t lane = 0; lane < y.dims[1]; lane += 16) {
      const int width = static_cast<int>(least(16, y.dims[1] - lane));
      store_partial(y.row<float>(b) + lane, pool_lanes(op.kind, x, rows, lane, width), width);
    }
  }
}

constexpr Kernel kTable[] = {
    kernel<DenseAttention, dense_attention>(RLX_ROW_NAME("dense_attention_f32"), Isa::RLX_ISA_LEVEL,
                                            accepts_dense_attention, dense_attention_scratch),
    kernel<PoolSequences, pool_sequences>(RLX_ROW_NAME("pool_sequences_f32"), Isa::RLX_ISA_LEVEL,
                                          accepts_pool_sequences),
};

}  // namespace

KernelTable dense_attention_kernels() { return {kTable, sizeof(kTable) / sizeof(kTable[0])}; }

}  // namespace rlx::cpu::RLX_ISA_LEVEL
#endif
