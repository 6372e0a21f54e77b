// Attention over the paged cache against a plain double loop, and the promise that batch, chunks
// and threads change no bit.
#include <limits>

#include "backends/kv_cache.h"

namespace rlx::cpu {
namespace {

constexpr DType kDtypes[] = {DType::f32, DType::f16, DType::bf16, DType::q8_0};

std::vector<Kernel> attention_rows(DType d) { return rows("attention", "attention_" + std::string(name(d)) + "_"); }

// Those on tile registers as well. Where the rows of a step are few they run the kernel of the vector units, so what a
// row shares its step with may change its last bits (--fast).
std::vector<Kernel> rows_of_any_step(DType d, std::int64_t head_dim) {
  std::vector<Kernel> all = attention_rows(d);
  for (const Kernel& k : rows("attention"))
    if (k.isa == Isa::amx && k.name == "attention_amx_" + std::string(name(d)) && head_dim % 32 == 0) all.push_back(k);
  return all;
}

double capped(double s, float cap) { return cap > 0 ? cap * std::tanh(s / cap) : s; }

// The definition, over the values that the cache keeps.
Floats reference(const Attention& op, const Cache& cache, const Batch& b, const Floats& q) {
  const auto d = static_cast<std::size_t>(cache.head_dim()), heads = static_cast<std::size_t>(op.heads);
  Floats y(q.size()), k(d), v(d);
  for (std::size_t s = 0; s < b.past.size(); ++s)
    for (std::int32_t r = 0; r < b.counts[s]; ++r)
      for (std::size_t h = 0; h < heads; ++h) {
        const std::int64_t kv_head = static_cast<std::int64_t>(h) / (op.heads / cache.kv_heads()),
            position = b.past[s] + r;
        const float* query = &q[(static_cast<std::size_t>(b.seq_start[s] + r) * heads + h) * d];
        std::vector<double> score, sum(d);
        const std::int64_t first = op.window > 0 ? std::max<std::int64_t>(0, position - op.window + 1) : 0;
        for (std::int64_t t = first; t <= position; ++t) {
          cache.load(b.slot[s], t, kv_head, k.data(), v.data());
          double dot = 0;
          for (std::size_t i = 0; i < d; ++i) dot += double{query[i]} * k[i];
          score.push_back(capped(dot * op.scale, op.softcap));
        }
        const double most = *std::max_element(score.begin(), score.end());
        double total = 0;
        for (std::int64_t t = first; t <= position; ++t) {
          cache.load(b.slot[s], t, kv_head, k.data(), v.data());
          const double p = std::exp(score[static_cast<std::size_t>(t - first)] - most);
          total += p;
          for (std::size_t i = 0; i < d; ++i) sum[i] += p * v[i];
        }
        for (std::size_t i = 0; i < d; ++i)
          y[(static_cast<std::size_t>(b.seq_start[s] + r) * heads + h) * d + i] = static_cast<float>(sum[i] / total);
      }
  return y;
}

double relative_rms(const Floats& found, const Floats& expected) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    error += std::pow(double{found[i]} - expected[i], 2);
    size += std::pow(double{expected[i]}, 2);
  }
  return std::sqrt(error / size);
}

// f32 sums everywhere; bf16 rounds q and the weights, q8_0 rounds q to int8 groups (kernels.md, 1.7).
double limit(DType d) { return d == DType::bf16 ? 6e-3 : d == DType::q8_0 ? 1.5e-2 : 3e-6; }

// A cache that holds all tokens of the sequences of a step, its own rows included.
struct Filled {
  Cache cache;
  Floats k, v;

  Filled(DType dtype, std::int64_t kv_heads, std::int64_t head_dim, const Batch& b, unsigned seed)
      : cache(dtype, kv_heads, head_dim, static_cast<std::int64_t>(b.past.size()) + 1, pages(b)) {
    Batch all(std::vector<std::int32_t>(b.past.size()), sums(b), b.slot);
    const auto n = static_cast<std::size_t>(all.rows() * kv_heads * head_dim);
    k = normal(n, seed);
    v = normal(n, seed + 1);
    cache.append(all, k, v);
  }
  static std::vector<std::int32_t> sums(const Batch& b) {
    std::vector<std::int32_t> n(b.past);
    for (std::size_t i = 0; i < n.size(); ++i) n[i] += b.counts[i];
    return n;
  }
  static std::int64_t pages(const Batch& b) {
    const auto n = sums(b);
    return *std::max_element(n.begin(), n.end()) / 64 + 1;
  }
};

struct Case {
  std::int64_t kv_heads, group, head_dim;
  std::vector<std::int32_t> past, counts;
};

TEST(Attention, MatchesTheDefinition) {
  const Case cases[] = {
      {1, 1, 64, {0}, {1}},          {2, 1, 16, {0}, {5}},           {3, 3, 24, {17}, {4}},
          {1, 4, 32, {130}, {1}},
      {2, 2, 64, {0}, {70}},         {1, 8, 128, {64, 3}, {2, 9}},   {2, 4, 256, {127}, {3}},
          {1, 3, 40, {300, 0, 5}, {1, 7, 1}},
      {1, 5, 72, {63}, {65}},        {1, 70, 32, {9}, {2}},          {1, 2, 512, {20}, {1}},
          {1, 6, 64, {0, 255, 0}, {129, 1, 2}},
      {9, 1, 64, {200}, {40}},       {1, 7, 8, {1}, {33}},
  };
  for (const DType dtype : kDtypes)
    for (const Case& c : cases) {
      if (!kv_supported(dtype, c.head_dim)) continue;
      Batch b(c.past, c.counts);
      Filled f(dtype, c.kv_heads, c.head_dim, b, 1);
      const Attention op{.heads = static_cast<std::int32_t>(c.kv_heads * c.group),
                         .scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim))};
      Floats q = normal(static_cast<std::size_t>(b.rows() * op.heads * c.head_dim), 3, 2.0f);
      const Floats expected = reference(op, f.cache, b, q);
      for (const Kernel& k : rows_of_any_step(dtype, c.head_dim))
        EXPECT_LT(relative_rms(attend(k, op, f.cache, b, q), expected), limit(dtype))
            << k.name << " heads " << c.kv_heads << "x" << c.group << " dim " << c.head_dim;
    }
}

// Fault N08: with window W a query sees W keys, itself among them, in prefill, decode and chunks alike.
TEST(Attention, WindowSeesItselfAndTheKeysBefore) {
  constexpr int kWindow = 4, kTokens = 10, kDim = 16;
  const Attention op{.heads = 1, .scale = 1.0f, .window = kWindow};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    Floats k(kTokens * kDim, 0.0f), v(kTokens * kDim, 0.0f);
    for (int t = 0; t < kTokens; ++t) v[static_cast<std::size_t>(t * kDim + t)] = 1.0f;
    Cache cache(dtype, 1, kDim, 1, 1);
    Batch all({0}, {kTokens});
    cache.append(all, k, v);
    for (const Kernel& row : attention_rows(dtype))
      for (const int chunk : {kTokens, 3, 1})
        for (int begin = 0; begin < kTokens; begin += chunk) {
          const int n = std::min(chunk, kTokens - begin);
          Batch b({begin}, {n});
          Floats q(static_cast<std::size_t>(n * kDim), 1.0f);
          const Floats y = attend(row, op, cache, b, q);
          for (int i = 0; i < n; ++i)
            for (int t = 0; t < kTokens; ++t) {
              const int position = begin + i, seen = std::min(position + 1, kWindow);
              const bool inside = t <= position && t > position - kWindow;
              EXPECT_NEAR(y[static_cast<std::size_t>(i * kDim + t)], inside
                  ? 1.0f / static_cast<float>(seen) : 0.0f, 1e-6)
                  << row.name << " position " << position << " key " << t;
            }
        }
  }
}

TEST(Attention, WindowsSkipWholeBlocks) {
  for (const DType dtype : kDtypes)
    for (const std::int32_t window : {1, 63, 64, 65, 128, 200, 5000}) {
      Batch b({500, 129}, {3, 70});
      Filled f(dtype, 1, 64, b, 5);
      const Attention op{.heads = 2, .scale = 0.125f, .window = window};
      Floats q = normal(static_cast<std::size_t>(b.rows() * 2 * 64), 4);
      const Floats expected = reference(op, f.cache, b, q);
      for (const Kernel& k : rows_of_any_step(dtype, 64))
        EXPECT_LT(relative_rms(attend(k, op, f.cache, b, q), expected), limit(dtype)) << k.name << " window " << window;
    }
}

// Fault N11: scores up to +-600 with cap 50, in prefill and decode.
TEST(Attention, SoftcapIsApplied) {
  for (const DType dtype : kDtypes)
    for (const std::int32_t count : {1, 66}) {
      Batch b({130}, {count});
      Filled f(dtype, 1, 64, b, 9);
      const Attention op{.heads = 4, .scale = 1.0f, .softcap = 50.0f}, uncapped{.heads = 4, .scale = 1.0f};
      Floats q = normal(static_cast<std::size_t>(b.rows() * 4 * 64), 6, 20.0f);
      const Floats expected = reference(op, f.cache, b, q);
      EXPECT_GT(relative_rms(reference(uncapped, f.cache, b, q), expected), 0.05) << "the cap must matter here";
      for (const Kernel& k : rows_of_any_step(dtype, 64))
        EXPECT_LT(relative_rms(attend(k, op, f.cache, b, q), expected), dtype == DType::f32 ||
            dtype == DType::f16 ? 1e-4 : 0.3)
            << k.name;
    }
}

// Fault N01: a score of 204,800 passes the range of half floats.
TEST(Attention, LargeScoresInHalfStorage) {
  for (const DType dtype : kDtypes) {
    Floats k(2 * 128, 40.0f), v(2 * 128, 1.0f), q(128, 40.0f);
    std::fill(v.begin() + 128, v.end(), 2.0f);
    Cache cache(dtype, 1, 128, 1, 1);
    Batch both({0}, {2}), last({1}, {1});
    cache.append(both, k, v);
    for (const Kernel& row : attention_rows(dtype))
      for (const float y : attend(row, {.heads = 1, .scale = 1.0f}, cache, last, q)) EXPECT_NEAR(y,
          1.5f, 1e-3) << row.name;
  }
}

TEST(Attention, NanReachesTheRowsThatSeeItAndNoOthers) {
  constexpr std::size_t kDim = 32;
  for (const DType dtype : kDtypes)
    for (const bool in_key : {true, false}) {
      constexpr int kTokens = 90, kBad = 37;
      Batch b({0, 0}, {kTokens, 20});
      Filled clean(dtype, 1, kDim, b, 11), dirty(dtype, 1, kDim, b, 11);
      (in_key ? dirty.k : dirty.v)[kBad * kDim + 3] = std::numeric_limits<float>::quiet_NaN();
      dirty.cache.append(b, dirty.k, dirty.v);
      const Attention op{.heads = 3, .scale = 0.2f};
      Floats q = normal(static_cast<std::size_t>(b.rows()) * 3 * kDim, 12);
      for (const Kernel& row : rows_of_any_step(dtype, kDim)) {
        const Floats good = attend(row, op, clean.cache, b, q), bad = attend(row, op, dirty.cache, b, q);
        for (std::size_t r = 0; r < static_cast<std::size_t>(b.rows()); ++r) {
          const bool sees = r >= kBad && r < kTokens;
          const std::size_t at = r * 3 * kDim;
          if (sees)
            EXPECT_TRUE(std::isnan(bad[at + 3]) && std::isnan(bad[at + 2 * kDim + 3])) << row.name << " row " << r;
          else
            EXPECT_EQ(std::memcmp(&good[at], &bad[at], 3 * kDim * 4), 0) << row.name << " row " << r;
        }
      }
    }
}

// ---- the same bits whatever surrounds a row ----

TEST(Attention, ARaggedBatchEqualsItsSequencesAlone) {
  for (const DType dtype : kDtypes) {
    Batch b({0, 140, 63, 400}, {70, 1, 2, 13}, {3, 0, 4, 1});
    Filled f(dtype, 2, 64, b, 21);
    const Attention op{.heads = 6, .scale = 0.125f};
    constexpr std::size_t kRow = 6 * 64;
    Floats q = normal(static_cast<std::size_t>(b.rows()) * kRow, 22);
    for (const Kernel& row : attention_rows(dtype)) {
      const Floats together = attend(row, op, f.cache, b, q);
      for (std::size_t s = 0; s < b.past.size(); ++s) {
        Batch one({b.past[s]}, {b.counts[s]}, {b.slot[s]});
        const auto begin = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(b.seq_start[s]) * kRow);
        const auto end = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(b.seq_start[s + 1]) * kRow);
        Floats part(q.begin() + begin, q.begin() + end);
        EXPECT_TRUE(same_bits(attend(row, op, f.cache, one, part),
            Floats(together.begin() + begin, together.begin() + end)))
            << row.name << " sequence " << s;
      }
    }
  }
}

struct Chunks {
  int tokens, chunk, least;  ///< a last chunk of fewer tokens than `least` is left out
  std::ptrdiff_t width;      ///< of a row of q
};
/// The rows of one sequence, a chunk at a time, on 1 to 3 threads.
Floats attend_in_chunks(const Kernel& row, const Attention& op, Cache& cache, const Floats& q, const Chunks& of) {
  Floats y;
  for (int begin = 0; begin + of.least <= of.tokens; begin += of.chunk) {
    const int n = std::min(of.chunk, of.tokens - begin);
    Batch b({begin}, {n});
    Floats part(q.begin() + begin * of.width, q.begin() + (begin + n) * of.width);
    const Floats piece = attend(row, op, cache, b, part, {.threads = begin % 3 + 1});
    y.insert(y.end(), piece.begin(), piece.end());
  }
  return y;
}

TEST(Attention, ChunksOfAnySizeGiveTheSameBits) {
  constexpr int kTokens = 333;
  for (const DType dtype : kDtypes)
    for (const std::int32_t window : {0, 100}) {
      Batch whole({0}, {kTokens});
      Filled f(dtype, 1, 64, whole, 31);
      const Attention op{.heads = 3, .scale = 0.125f, .window = window};
      constexpr std::size_t kRow = 3 * 64;
      Floats q = normal(kTokens * kRow, 32);
      for (const Kernel& row : attention_rows(dtype)) {
        const Floats expected = attend(row, op, f.cache, whole, q);
        for (const int chunk : {1, 7, 64, 100}) {
          const Floats y = attend_in_chunks(row, op, f.cache, q, {kTokens, chunk, 1, kRow});
          EXPECT_TRUE(same_bits(y, expected)) << row.name << " chunks of " << chunk << " window " << window;
        }
      }
    }
}

// On tile registers a step of 16 rows a sequence and more gives the bits of any other such step.
TEST(Attention, TilesGiveTheSameBitsForLargeChunksAndBatches) {
  constexpr int kTokens = 333;
  constexpr std::size_t kRow = 3 * 64;
  for (const DType dtype : {DType::bf16, DType::q8_0})
    for (const std::int32_t window : {0, 100}) {
      Batch whole({0, 40}, {kTokens, 50});
      Filled f(dtype, 1, 64, whole, 31);
      const Attention op{.heads = 3, .scale = 0.125f, .window = window};
      Floats q = normal(static_cast<std::size_t>(whole.rows()) * kRow, 32);
      for (const Kernel& row : rows_of_any_step(dtype, 64)) {
        const Floats expected = attend(row, op, f.cache, whole, q);
        for (const int chunk : {16, 23, 64, 100}) {
          const Floats y = attend_in_chunks(row, op, f.cache, q, {kTokens, chunk, 16, kRow});
          EXPECT_EQ(std::memcmp(y.data(), expected.data(), y.size() * sizeof(float)), 0)
              << row.name << " chunks of " << chunk << " window " << window;
        }
      }
    }
}

TEST(Attention, AnyNumberOfThreadsGivesTheSameBits) {
  const Case cases[] = {{1, 3, 64, {1000}, {1}}, {3, 3, 64, {0}, {200}},
      {2, 4, 32, {700, 3}, {1, 1}}, {1, 1, 128, {300}, {20}}};
  for (const DType dtype : kDtypes)
    for (const Case& c : cases) {
      Batch b(c.past, c.counts);
      Filled f(dtype, c.kv_heads, c.head_dim, b, 41);
      const Attention op{.heads = static_cast<std::int32_t>(c.kv_heads * c.group), .scale = 0.1f};
      Floats q = normal(static_cast<std::size_t>(b.rows() * op.heads * c.head_dim), 42);
      for (const Kernel& row : rows_of_any_step(dtype, c.head_dim)) {
        const Floats one = attend(row, op, f.cache, b, q);
        for (const int threads : {2, 3, 7})
          for (const bool together : {false, true})
            EXPECT_TRUE(same_bits(attend(row, op, f.cache, b, q, {threads, together}), one))
                << row.name << " threads " << threads << (together ? " together" : " in turn");
      }
    }
}

TEST(Attention, ScratchIsBoundedAndSharedOnlyForFewRows) {
  const Attention op{.heads = 32};
  TensorView in[2] = {view(nullptr, {2048, 32 * 128}), view(nullptr, {8, 128})}, out[1] = {in[0]};
  const ScratchQuery query{&op, in, out, 8, 131072};
  for (const Kernel& row : rows("attention")) {
    const ScratchNeed need = row.scratch(query);
    EXPECT_LE(need.per_worker, 1 << 20);
    EXPECT_LE(need.shared, (64 << 20) + 4096);
    EXPECT_LE(need.shared_zeroed, 4096);
  }
}

}  // namespace
}  // namespace rlx::cpu
