// Attention over the rows of a step. A job is one head of up to 64 queries of a sequence, over tiles of 64 keys counted
// from the start of the sequence; the softmax runs over the tiles with a running maximum. What a row gets depends on
// its sequence alone: the same bits for any batch and any number of threads.
#include "backends/cpu/dense_attention.h"

#include <type_traits>
#include <utility>

#include "backends/cpu/simd.h"
#include "backends/cpu/simd_math.h"
#include "backends/cpu/simd_transpose.h"
#include "backends/cpu/table.h"
#include "backends/cpu/work.h"
#include "ops/dense_attention.h"

#if !defined(RLX_ISA_avx512_bf16)  // that level has nothing here that avx512 lacks
namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

constexpr float kLowest = -3.4028235e38f, kLog2e = 1.44269504f;
// A tile of products: rows (keys, or lanes of a value) times vectors of 16 queries. 16 sums of 32 registers, on avx2 8
// of 16: enough chains for two multiply-adds per cycle, and half as many loads.
#if defined(RLX_WIDE)
constexpr int kMostVectors = 4;
template <int V>
constexpr int kTileRows = V <= 2 ? 8 : 4;
#else
constexpr int kMostVectors = 1;
template <int V>
#if defined(RLX_ISA_avx2)
constexpr int kTileRows = 4;
#else
constexpr int kTileRows = 2;
#endif
#endif

inline std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
inline std::int64_t most(std::int64_t a, std::int64_t b) { return a > b ? a : b; }

template <typename F, int... I>
RLX_SIMD void each_of(std::integer_sequence<int, I...>, F f) {
  (f(std::integral_constant<int, I>{}), ...);
}
/// f(0), ... f(N - 1) with constants: arrays of vectors that they index stay in registers.
#define RLX_EACH_OF(n, i) each_of(std::make_integer_sequence<int, n>{}, [&](auto i) __attribute__((always_inline))

/// The rows of sequence b, kept inside the tensor whatever the starts say.
inline Range sequence_rows(const TensorView& starts, std::int64_t b, std::int64_t rows) {
  const auto* s = static_cast<const std::int32_t*>(starts.data);
  const std::int64_t begin = most(0, least(s[b], rows));
  return {begin, most(begin, least(s[b + 1], rows))};
}

/// Rows of one head: f32, `stride` values from one to the next.
struct HeadRows {
  const float* data;
  std::int64_t stride;
  const float* at(std::int64_t row) const { return data + row * stride; }
};

/// scores[r][query] = rows[r] . queries for R rows and V vectors of queries; beyond row `last` that one again.
template <int R, int V>
void score_tile(HeadRows rows, std::int64_t first, std::int64_t last, const float* queries, std::int64_t size,
                float* scores) {
  const float* row[R];
  f32x16 acc[R][V];
  RLX_EACH_OF(R, r) {
    row[r] = rows.at(least(first + r, last));
    RLX_EACH_OF(V, v) { acc[r][v] = zero_f32(); });
  });
  for (std::int64_t d = 0; d < size; ++d) {
    f32x16 q[V];
    RLX_EACH_OF(V, v) { q[v] = load(queries + d * kDenseQueries + v * kLanes); });
    RLX_EACH_OF(R, r) {
      const f32x16 k = set1(row[r][d]);
      RLX_EACH_OF(V, v) { acc[r][v] = fma(k, q[v], acc[r][v]); });
    });
  }
  RLX_EACH_OF(R, r) {
    RLX_EACH_OF(V, v) { store(scores + (first + r) * kDenseQueries + v * kLanes, acc[r][v]); });
  });
}

/// sums[d][query] = sums * shrink + weights . rows for R lanes d of a value and V vectors of queries.
template <int R, int V>
void value_tile(HeadRows rows, std::int64_t count, const float* weights, const f32x16* shrink, float* sums) {
  f32x16 acc[R][V];
  RLX_EACH_OF(R, r) {
    RLX_EACH_OF(V, v) { acc[r][v] = load(sums + r * kDenseQueries + v * kLanes) * shrink[v]; });
  });
  const float* row = rows.data;
  for (std::int64_t key = 0; key < count; ++key, row += rows.stride) {
    f32x16 w[V];
    RLX_EACH_OF(V, v) { w[v] = load(weights + key * kDenseQueries + v * kLanes); });
    RLX_EACH_OF(R, r) {
      const f32x16 x = set1(row[r]);
      RLX_EACH_OF(V, v) { acc[r][v] = fma(x, w[v], acc[r][v]); });
    });
  }
  RLX_EACH_OF(R, r) {
    RLX_EACH_OF(V, v) { store(sums + r * kDenseQueries + v * kLanes, acc[r][v]); });
  });
}

/// One job, and the areas of this worker. Queries stand in the lanes: their maxima and sums are vectors, keys and
/// values are read where they lie, and only the queries and the results are transposed.
struct DenseJob {
  const DenseAttention& op;
  const KernelArgs& a;
  std::int64_t size, value_size;
  float *queries, *scores, *sums, *by_distance;
  f32x16 top[kMostVectors], total[kMostVectors];

  Range keys{0, 0};
  std::int64_t head = 0, kv_head = 0;
  std::int64_t first = 0, first_at = 0, count = 0;  // rows first .. first + count, the first at position first_at

  DenseJob(const DenseAttention& o, const KernelArgs& args)
      : op(o),
        a(args),
        size(args.in[0].dims[1] / o.heads),
        value_size(args.in[2].dims[1] / o.kv_heads),
        queries(reinterpret_cast<float*>(args.scratch)),
        scores(queries + size * kDenseQueries),
        sums(scores + kDenseKeys * kDenseQueries),
        by_distance(sums + value_size * kDenseQueries) {}

  std::int64_t key_count() const { return keys.end - keys.begin; }
  /// Whether scores need more than their factor, which the queries carry.
  bool is_plain() const { return !(op.softcap > 0) && op.bias == AttentionBias::none; }

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
  static HeadRows head_rows(const TensorView& v, std::int64_t row, std::int64_t lane) {
    return {v.row<const float>(row) + lane, v.strides[0] / 4};
  }

  /// queries[d][query] of `lanes` queries from `offset` on, with the factor of their scores; zeros beyond the last.
  void take_queries(std::int64_t offset, std::int64_t n, int lanes) {
    const HeadRows q = head_rows(a.in[0], first + offset, head * size);
    transpose_block(q.data, q.stride, n, size, queries, kDenseQueries);
    const f32x16 factor = set1(is_plain() ? op.scale * kLog2e : op.scale);
    for (std::int64_t d = 0; d < size; ++d) {
      float* line = queries + d * kDenseQueries;
      for (std::int64_t i = n; i < lanes; ++i) line[i] = 0.0f;
      for (int i = 0; i < lanes; i += kLanes) store(line + i, load(line + i) * factor);
    }
  }

  /// Soft-cap and bias of the scores of n keys from `start`; from here on they are powers of 2.
  void adjust(std::int64_t offset, std::int64_t start, std::int64_t n, int lanes) {
    const std::int64_t from = first_at + offset;
    if (op.bias == AttentionBias::distances) {  // by_distance[query - key + 63] of this tile
      const TensorView& bias = a.in[5];
      const float* table = bias.row<const float>(bias.dims[0] == 1 ? 0 : head);
      const std::int64_t far = bias.dims[1] / 2;
      for (std::int64_t i = 0; i < kDenseKeys + lanes; ++i)
        by_distance[i] = table[most(-far, least(start - from + kDenseKeys - 1 - i, far)) + far];
    }
    for (std::int64_t key = 0; key < n; ++key) {
      for (int i = 0; i < lanes; i += kLanes) {
        float* at = scores + key * kDenseQueries + i;
        f32x16 s = load(at);
        if (op.softcap > 0) s = softcap(s, op.softcap);
        if (op.bias == AttentionBias::distances) s = s + load(by_distance + kDenseKeys - 1 - key + i);
        if (op.bias == AttentionBias::pairs) s = s + pair_biases(from + i, start + key);
        store(at, s * set1(kLog2e));
      }
    }
  }
  /// The biases of 16 query positions and a key.
  f32x16 pair_biases(std::int64_t position, std::int64_t key) const {
    const TensorView& bias = a.in[5];
    const std::int64_t h = bias.dims[0] == 1 ? 0 : head, column = least(key, bias.dims[2] - 1);
    alignas(64) float line[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      const std::int64_t row = most(0, least(position + i, bias.dims[1] - 1));
      line[i] = at<const float>(bias, h * bias.strides[0] + row * bias.strides[1])[column];
    }
    return load(line);
  }

  /// Hides what the queries at positions from `from` on do not see of n keys from `start`.
  void hide(std::int64_t from, std::int64_t start, std::int64_t n, int lanes) {
    const std::int64_t far = std::int64_t{1} << 30;  // rows are fewer
    const i32x16 window = set1_i32(static_cast<int>(op.window > 0 ? least(op.window, far) : far));
    alignas(64) static constexpr int kIndex[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const f32x16 hidden = set1(-__builtin_inff());
    for (std::int64_t key = 0; key < n; ++key) {
      for (int i = 0; i < lanes; i += kLanes) {
        const i32x16 ahead = set1_i32(static_cast<int>(start + key - from - i)) - load_i32(kIndex);
        mask16 seen = gt(window, ahead) & gt(ahead + window, zero_i32());
        if (op.causal) seen = seen & gt(set1_i32(1), ahead);
        float* at = scores + key * kDenseQueries + i;
        store(at, select(seen, load(at), hidden));
      }
    }
  }

  /// Turns n scores of each query into weights below its running maximum; what it has so far is to shrink.
  template <int V>
  void weigh(std::int64_t n, f32x16 (&shrink)[V]) {
    f32x16 now[V], weights[V];
    RLX_EACH_OF(V, v) { now[v] = top[v], weights[v] = zero_f32(); });
    for (std::int64_t key = 0; key < n; ++key)
      RLX_EACH_OF(V, v) { now[v] = max(load(scores + key * kDenseQueries + v * kLanes), now[v]); });
    for (std::int64_t key = 0; key < n; ++key)
      RLX_EACH_OF(V, v) {
        float* at = scores + key * kDenseQueries + v * kLanes;
        const f32x16 w = exp2_of_negative(load(at) - now[v]);
        weights[v] = weights[v] + w;
        store(at, w);
      });
    RLX_EACH_OF(V, v) {
      shrink[v] = exp2_of_negative(top[v] - now[v]);
      total[v] = total[v] * shrink[v] + weights[v];
      top[v] = now[v];
    });
  }

  /// Asks for a tile of keys and values from `row` on: a few lines of each row, too far apart for the processor
  /// to foresee, and half of them written by another worker where a sequence is alone (MiniLM, 128 tokens: on two cores
  /// without a cache in common 0.15 ms a layer, half of them waiting).
  void prefetch(std::int64_t row, std::int64_t head_of_keys) const {
    const std::int64_t n = least(kDenseKeys, a.in[1].dims[0] - row);
    if (n <= 0) return;
    const HeadRows k = head_rows(a.in[1], row, head_of_keys * size),
                   v = head_rows(a.in[2], row, head_of_keys * value_size);
    for (std::int64_t r = 0; r < n; ++r) {
      for (std::int64_t i = 0; i < size; i += kLanes)
        _mm_prefetch(reinterpret_cast<const char*>(k.at(r) + i), _MM_HINT_T1);
      for (std::int64_t i = 0; i < value_size; i += kLanes)
        _mm_prefetch(reinterpret_cast<const char*>(v.at(r) + i), _MM_HINT_T1);
    }
  }
  /// What is read after the tile from `start` on, when the last key that is seen is before `end`: the next tile, or the
  /// first one of the next head, or of the next sequence.
  void prefetch_after(std::int64_t start, std::int64_t end) const {
    if (start + kDenseKeys < end) return prefetch(keys.begin + start + kDenseKeys, kv_head);
    if (head + 1 == op.heads) return prefetch(keys.end, 0);
    const std::int64_t next = (head + 1) / (op.heads / op.kv_heads);
    if (next != kv_head) prefetch(keys.begin, next);
  }

  template <int V>
  void tile(std::int64_t offset, std::int64_t start, std::int64_t n, bool partly) {
    constexpr int R = kTileRows<V>;
    const HeadRows k = head_rows(a.in[1], keys.begin + start, kv_head * size);
    HeadRows values = head_rows(a.in[2], keys.begin + start, kv_head * value_size);
    for (std::int64_t key = 0; key < n; key += R) score_tile<R, V>(k, key, n - 1, queries, size, scores);
    if (!is_plain()) adjust(offset, start, n, V * kLanes);
    if (partly) hide(first_at + offset, start, n, V * kLanes);
    f32x16 shrink[V];
    weigh<V>(n, shrink);
    std::int64_t d = 0;
    for (; d + R <= value_size; d += R, values.data += R)
      value_tile<R, V>(values, n, scores, shrink, sums + d * kDenseQueries);
    for (; d < value_size; ++d, ++values.data)
      value_tile<1, V>(values, n, scores, shrink, sums + d * kDenseQueries);
  }

  /// n queries from `offset` on: V vectors of them.
  template <int V>
  void sweep(std::int64_t offset, std::int64_t n) {
    take_queries(offset, n, V * kLanes);
    RLX_EACH_OF(V, v) { top[v] = set1(kLowest), total[v] = zero_f32(); });
    for (std::int64_t d = 0; d < value_size; ++d)
      RLX_EACH_OF(V, v) { store(sums + d * kDenseQueries + v * kLanes, zero_f32()); });
    const Range low = visible(first_at + offset), high = visible(first_at + offset + n - 1);
    for (std::int64_t start = low.begin / kDenseKeys * kDenseKeys; start < high.end; start += kDenseKeys) {
      const std::int64_t keys_here = least(kDenseKeys, high.end - start);
      prefetch_after(start, high.end);
      tile<V>(offset, start, keys_here, start < high.begin || start + keys_here > low.end);
    }
    for (std::int64_t d = 0; d < value_size; ++d)
      RLX_EACH_OF(V, v) {
        float* at = sums + d * kDenseQueries + v * kLanes;
        const f32x16 none = zero_f32();
        store(at, load(at) * select(eq(total[v], none), none, set1(1.0f) / total[v]));
      });
    const TensorView& y = a.out[0];
    transpose_block(sums, kDenseQueries, value_size, n, y.row<float>(first + offset) + head * value_size,
                    y.strides[0] / 4);
  }

  void run() {
    for (std::int64_t offset = 0; offset < count; offset += kMostVectors * kLanes) {
      const std::int64_t n = least(kMostVectors * kLanes, count - offset);
#if defined(RLX_WIDE)
      if (n > 48) sweep<4>(offset, n);
      else if (n > 32) sweep<3>(offset, n);
      else if (n > 16) sweep<2>(offset, n);
      else sweep<1>(offset, n);
#else
      sweep<1>(offset, n);
#endif
    }
  }
};
#undef RLX_EACH_OF

/// Rows begin .. end of y become zeros.
inline void clear_rows(const TensorView& y, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r)
    for (std::int64_t i = 0; i < y.dims[1]; ++i) y.row<float>(r)[i] = 0.0f;
}

/// The jobs of a head.
inline std::int64_t query_blocks(const TensorView& starts, std::int64_t rows) {
  std::int64_t blocks = 0;
  for (std::int64_t b = 0; b + 1 < starts.dims[0]; ++b) {
    const Range q = sequence_rows(starts, b, rows);
    blocks += (q.end - q.begin + kDenseQueries - 1) / kDenseQueries;
  }
  return blocks;
}

// q: [q_rows, heads * d]; k: [kv_rows, kv_heads * d]; v: [kv_rows, kv_heads * e]; y: [q_rows, heads * e]
// Rows outermost: the products before and after this cut rows between the workers (kTerritoryRows), and a worker finds
// most rows in its own caches.
void dense_attention(const DenseAttention& op, const KernelArgs& a) noexcept {
  const std::int64_t batch = a.in[3].dims[0] - 1, rows = a.in[0].dims[0], kv_rows = a.in[1].dims[0];
  std::int64_t covered = 0;
  for (std::int64_t b = 0; a.thread == 0 && b < batch; ++b) {
    const Range q = sequence_rows(a.in[3], b, rows);
    clear_rows(a.out[0], covered, q.begin);
    covered = most(covered, q.end);
  }
  if (a.thread == 0) clear_rows(a.out[0], covered, rows);
  const Range mine = part(a, query_blocks(a.in[3], rows) * op.heads);
  DenseJob job(op, a);
  for (std::int64_t b = 0, before = 0; b < batch && before < mine.end; ++b) {
    const Range q = sequence_rows(a.in[3], b, rows);
    const std::int64_t queries = q.end - q.begin,
                       jobs = (queries + kDenseQueries - 1) / kDenseQueries * op.heads;
    job.keys = sequence_rows(a.in[4], b, kv_rows);
    const std::int64_t shift = op.causal ? job.key_count() - queries : 0;
    for (std::int64_t i = most(0, mine.begin - before); i < least(jobs, mine.end - before); ++i) {
      const std::int64_t block = i / op.heads * kDenseQueries;
      job.head = i % op.heads;
      job.kv_head = job.head / (op.heads / op.kv_heads);
      job.first = q.begin + block;
      job.first_at = block + shift;
      job.count = least(kDenseQueries, queries - block);
      job.run();
    }
    before += jobs;
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
