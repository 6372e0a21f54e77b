#include "ops/dense_attention.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ir/graph.h"
#include "ops/access.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/product.h"
#include "ops/reduction.h"
#include "ops/samples.h"
#include "ops/shape_ops.h"

namespace rlx {
namespace {

using access::Part;

// The first row of each sequence, then the end of the last one.
void check_starts(InferContext& c, int i) {
  checks::plain(c, i, DType::i32, 1);
  const Dim sequences = c.in(i).dim(0) - Dim(1);
  std::vector<Symbol> symbols;
  sequences.collect(symbols);
  if (symbols.size() == 1 && sequences == Dim(symbols[0])) return;  // no symbol is negative
  checks::at_most(c, Dim(0), sequences, [&] {
    return fmt::format("{}: expected starts and an end, at least 1 value, found {}", c.operand(i), c.in(i).text());
  });
}

// The columns of operand i are `heads` heads of one size: that size.
Dim size_of_heads(InferContext& c, int i, std::int32_t heads, std::string_view of) {
  const Dim columns = c.in(i).dim(-1), size = ceil_div(columns, heads);
  checks::same(c, size * Dim(heads), columns, [&] {
    return fmt::format("{}: expected columns that are a multiple of {} = {}, found {}", c.operand(i), of, heads,
                       checks::dims_text(c.in(i)));
  });
  return size;
}

void check_score_bias(InferContext& c, const DenseAttention& op) {
  if (op.bias == AttentionBias::none) return;
  checks::plain(c, 5, DType::f32, op.bias == AttentionBias::pairs ? 3 : 2);
  const Dim heads = c.in(5).dim(0);
  if (!(heads == Dim(1)))
    checks::same(c, heads, Dim(op.heads), [&] {
      return fmt::format("bias: expected 1 or {} heads, found {}", op.heads, checks::dims_text(c.in(5)));
    });
  const Dim beside_middle = c.in(5).dim(-1) - Dim(1);
  if (op.bias == AttentionBias::distances)
    checks::same(c, ceil_div(beside_middle, 2) * Dim(2), beside_middle, [&] {
      return fmt::format("bias: expected an odd number of distances (2n + 1), found {}", checks::dims_text(c.in(5)));
    });
  for (int axis = 1; axis < c.in(5).rank(); ++axis)
    checks::at_most(c, Dim(1), c.in(5).dim(axis), [&] {
      return fmt::format("bias: expected at least one entry, found {}", checks::dims_text(c.in(5)));
    });
}

// The rows of sequence b; starts of a run are data, so they are checked here.
Part sequence_part(const TensorView& starts, std::int64_t b, std::int64_t rows, const char* name) {
  const Part part{access::load_int(starts, b), access::load_int(starts, b + 1)};
  if (part.begin < 0 || part.end < part.begin || part.end > rows)
    fail(ErrorCode::invalid_argument, "{}: expected rising starts from 0 to {} rows, found {} and {} for sequence {}",
         name, rows, part.begin, part.end, b);
  return part;
}

}  // namespace

void DenseAttention::infer(InferContext& c) const {
  checks::attribute(c, "heads", heads, 1, INT32_MAX);
  checks::attribute(c, "kv_heads", kv_heads, 1, INT32_MAX);
  checks::attribute(c, "window", window, 0, INT32_MAX);
  checks::attribute(c, "softcap", double{softcap}, 0, checks::kNoLimit);
  if (!std::isfinite(scale)) c.fail("scale: expected a finite value, found {}", scale);
  if (heads % kv_heads != 0) c.fail("heads: expected a multiple of the {} KV heads, found {}", kv_heads, heads);
  const bool biased = bias != AttentionBias::none;
  checks::operand_count(c, 5 + biased, biased ? "with bias" : "without bias");
  for (int i = 0; i < 3; ++i) checks::plain(c, i, DType::f32, 2);
  check_starts(c, 3);
  check_starts(c, 4);
  const Dim size = size_of_heads(c, 0, heads, "heads");
  const Dim value_size = size_of_heads(c, 2, kv_heads, "kv_heads");
  checks::has_columns(c, 1, size * Dim(kv_heads), "kv_heads * head_dim");
  checks::has_rows(c, 2, c.in(1).dim(0), "the rows of k");
  checks::same(c, c.in(3).dim(0), c.in(4).dim(0), [&] {
    return fmt::format("q_start {} and k_start {} must be of as many sequences", checks::dims_text(c.in(3)),
                       checks::dims_text(c.in(4)));
  });
  check_score_bias(c, *this);
  c.out(Shape({c.in(0).dim(0), value_size * Dim(heads)}, DType::f32));
}

void DenseAttention::decompose(Body& body) const {
  Builder& b = body.b;
  const Dim rows = body.shape(0).dim(0), keys = body.shape(1).dim(0);
  const Dim size = ceil_div(body.shape(0).dim(1), heads), value_size = ceil_div(body.shape(2).dim(1), kv_heads);
  const std::int32_t group = heads / kv_heads;
  const auto by_head = [&](int i, Dim count, std::int32_t in_group, Dim width) {  // [kv_heads, in_group, count, width]
    return b(Transpose{{1, 2, 0, 3}}, b(Reshape{{count, kv_heads, in_group, width}}, body.in(i)));
  };
  Value scores = b(BatchedMatmul{.transpose_b = true}, by_head(0, rows, group, size), by_head(1, keys, 1, size));
  scores = b(Scale{.factor = scale}, scores);
  if (softcap > 0) scores = b(Softcap{.cap = softcap}, scores);
  AttentionMask mask{.window = window, .causal = causal, .bias = bias};
  if (bias != AttentionBias::none) mask.first = body.shape(5).dim(1);
  if (bias == AttentionBias::pairs) mask.second = body.shape(5).dim(2);
  const Value hidden = b(mask, body.in(0), body.in(1), body.in(3), body.in(4));
  if (bias != AttentionBias::none) {
    // The table's heads as columns, a row per entry, gathered for every pair.
    const Dim own_heads = body.shape(5).dim(0);
    const Value table = b(Reshape{{own_heads, mask.first * mask.second}}, body.in(5));
    const Value places = b(Reshape{{rows * keys}}, b.result(hidden, 2));
    const Value by_pair = b(Embedding{}, b(Transpose{{1, 0}}, table), places);
    Value added = b(Transpose{{2, 0, 1}}, b(Reshape{{rows, keys, own_heads}}, by_pair));
    if (!(own_heads == Dim(1))) added = b(Reshape{{kv_heads, group, rows, keys}}, added);
    scores = b(Add{}, scores, added);
  }
  const Value weights = b(Softmax{}, b(Add{}, scores, hidden));
  const Value mixed = b(BatchedMatmul{}, weights, by_head(2, keys, 1, value_size));
  const Value joined = b(Reshape{{rows, value_size * Dim(heads)}}, b(Transpose{{2, 0, 1, 3}}, mixed));
  body.ret({b(Mul{}, joined, b.result(hidden, 1))});  // a query that sees no key gives zeros, not a mean
}

AttentionMask::Keys AttentionMask::seen_from(std::int64_t position, std::int64_t count) const {
  Keys seen{0, count};
  if (causal) seen.end = std::min(count, position + 1);
  if (window > 0) {
    seen.begin = std::max<std::int64_t>(0, position - window + 1);
    seen.end = std::min(seen.end, position + window);
  }
  return seen;
}

std::int64_t AttentionMask::place_of(std::int64_t position, std::int64_t key) const {
  const std::int64_t n = first.constant().value_or(1), m = second.constant().value_or(1);
  if (bias == AttentionBias::distances) return std::clamp(key - position, -(n / 2), n / 2) + n / 2;
  return std::clamp<std::int64_t>(position, 0, n - 1) * m + std::min(key, m - 1);
}

void AttentionMask::infer(InferContext& c) const {
  checks::operand_count(c, 4);
  checks::attribute(c, "window", window, 0, INT32_MAX);
  for (int i : {0, 1}) checks::plain(c, i, DType::f32, 2);
  for (int i : {2, 3}) check_starts(c, i);
  checks::same(c, c.in(2).dim(0), c.in(3).dim(0), [&] {
    return fmt::format("q_start {} and k_start {} must be of as many sequences", checks::dims_text(c.in(2)),
                       checks::dims_text(c.in(3)));
  });
  for (const Dim entries : {first, second})
    checks::at_most(c, Dim(1), entries, [&] {
      return fmt::format("first and second: expected at least one entry, found {} and {}", first.text(), second.text());
    });
  const Shape pairs({c.in(0).dim(0), c.in(1).dim(0)}, DType::f32);
  c.out(pairs);
  c.out(Shape({c.in(0).dim(0), Dim(1)}, DType::f32));
  if (bias != AttentionBias::none) c.out(pairs.with(DType::i32));
}

void AttentionMask::reference(const KernelArgs& a) const {
  const std::int64_t rows = a.in[0].dims[0], keys = a.in[1].dims[0];
  const Part part = access::part_of(a, rows);
  for (std::int64_t r = part.begin; r < part.end; ++r) {
    for (std::int64_t k = 0; k < keys; ++k) {
      access::store(a.out[0], r, k, double{kHidden});
      if (bias != AttentionBias::none) access::store(a.out[2], r, k, 0.0);
    }
    access::store(a.out[1], r, 0, 0.0);
  }
  for (std::int64_t s = 0; s + 1 < a.in[2].dims[0]; ++s) {
    const Part queries = sequence_part(a.in[2], s, rows, "attention: q_start"),
               own = sequence_part(a.in[3], s, keys, "attention: k_start");
    const std::int64_t count = own.end - own.begin, shift = causal ? count - (queries.end - queries.begin) : 0;
    for (std::int64_t r = std::max(part.begin, queries.begin); r < std::min(part.end, queries.end); ++r) {
      const std::int64_t position = r - queries.begin + shift;
      const Keys seen = seen_from(position, count);
      for (std::int64_t key = seen.begin; key < seen.end; ++key) {
        access::store(a.out[0], r, own.begin + key, 0.0);
        access::store(a.out[1], r, 0, 1.0);
        if (bias != AttentionBias::none)
          access::store(a.out[2], r, own.begin + key, static_cast<double>(place_of(position, key)));
      }
    }
  }
}

std::int64_t RelativeBias::bucket(std::int64_t distance, std::int64_t buckets) const {
  std::int64_t first = 0, away = distance > 0 ? 0 : -distance;
  if (bidirectional) {
    buckets /= 2;
    first = distance > 0 ? buckets : 0;
    away = std::abs(distance);
  }
  const std::int64_t exact = buckets / 2;
  if (away < exact) return first + away;
  // In float32 as the models were trained: a distance at the edge of a range falls where it fell then.
  const auto ratio =
      static_cast<float>(std::log(static_cast<double>(static_cast<float>(away) / static_cast<float>(exact))));
  const auto range = static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(exact)));
  const float place = ratio / range * static_cast<float>(buckets - exact);
  return first + std::min(exact + static_cast<std::int64_t>(place), buckets - 1);
}

void RelativeBias::infer(InferContext& c) const {
  checks::operand_count(c, 1);
  checks::plain(c, 0, DType::f32, 2);
  const Dim buckets = c.in(0).dim(0);
  const std::int64_t least = bidirectional ? 4 : 2;
  const auto message = [&] {
    return fmt::format("table: expected {} of at least {} buckets, found {}",
                       bidirectional ? "an even number" : "a number", least, checks::dims_text(c.in(0)));
  };
  checks::at_most(c, Dim(least), buckets, message);
  if (bidirectional) checks::same(c, ceil_div(buckets, 2) * Dim(2), buckets, message);
  checks::attribute(c, "max_distance", max_distance, 1, 1 << 20);
  checks::at_most(c, buckets, Dim(least * max_distance - 1), [&] {
    return fmt::format(
        "max_distance: expected more than the distances with a bucket of their own, a {} of {}, found {}",
        bidirectional ? "quarter" : "half", buckets.text(), max_distance);
  });
  c.out(Shape({c.in(0).dim(1), Dim(2 * std::int64_t{max_distance} + 1)}, DType::f32));
}

void RelativeBias::reference(const KernelArgs& a) const {
  const TensorView &table = a.in[0], &y = a.out[0];
  const Part part = access::part_of(a, y.dims[0]);
  for (std::int64_t h = part.begin; h < part.end; ++h)
    for (std::int64_t d = -std::int64_t{max_distance}; d <= max_distance; ++d)
      access::store(y, h, d + max_distance, access::load(table, bucket(d, table.dims[0]), h));
}

void PoolSequences::infer(InferContext& c) const {
  checks::operand_count(c, 2);
  checks::plain(c, 0, DType::f32, 2);
  check_starts(c, 1);
  c.out(c.in(0).with_dim(0, c.in(1).dim(0) - Dim(1)));
}

void PoolSequences::reference(const KernelArgs& a) const {
  const TensorView &x = a.in[0], &y = a.out[0];
  const Part part = access::part_of(a, y.dims[0]);
  std::vector<double> row(static_cast<std::size_t>(access::columns(x))), pooled(row.size());
  for (std::int64_t b = part.begin; b < part.end; ++b) {
    Part rows = sequence_part(a.in[1], b, x.dims[0], "pool_sequences: seq_start");
    const std::int64_t count = rows.end - rows.begin;
    if (kind == SequencePooling::first) rows.end = std::min(rows.end, rows.begin + 1);
    if (kind == SequencePooling::last) rows.begin = std::max(rows.begin, rows.end - 1);
    std::fill(pooled.begin(), pooled.end(), 0.0);
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      access::load_row(x, r, row.data());
      for (std::size_t i = 0; i < row.size(); ++i)
        if (kind != SequencePooling::max)
          pooled[i] += row[i];
        else if (r == rows.begin || row[i] > pooled[i] || std::isnan(row[i]))
          pooled[i] = row[i];
    }
    for (double& p : pooled)
      if (kind == SequencePooling::mean && count > 0) p /= static_cast<double>(count);
    access::store_row(y, b, pooled.data());
  }
}

using samples::given;
using samples::normal;

namespace {

// Queries and keys of each sequence.
struct RaggedBatch {
  std::string name;
  std::vector<std::int32_t> queries, keys;
};

const std::vector<RaggedBatch>& ragged_batches() {
  static const std::vector<RaggedBatch> list = {
      {"one", {1}, {1}},
      {"square", {17}, {17}},
      {"ragged", {3, 0, 21, 1}, {3, 0, 21, 1}},
      {"tiles", {65}, {65}},
      {"several_tiles", {7, 130}, {7, 130}},
      {"cross", {5, 33, 2}, {40, 7, 64}},
      {"no_keys", {2, 4}, {0, 5}},
      {"step", {1, 2, 1}, {64, 129, 7}},
  };
  return list;
}

SampleOperand starts_of(const std::vector<std::int32_t>& lengths) {
  std::vector<std::int32_t> starts = {0};
  for (const std::int32_t n : lengths) starts.push_back(starts.back() + n);
  return given(std::move(starts));
}

struct DenseHeads {
  std::int32_t heads, kv_heads, size, value_size;
};

Sample dense_sample(const RaggedBatch& batch, const DenseHeads& h, DenseAttention op, std::string_view suffix,
                    std::int64_t table = 9) {
  std::int64_t rows = 0, keys = 0, most = 0;
  for (std::size_t b = 0; b < batch.queries.size(); ++b) {
    rows += batch.queries[b];
    keys += batch.keys[b];
    most = std::max<std::int64_t>(most, batch.keys[b]);
  }
  op.heads = h.heads;
  op.kv_heads = h.kv_heads;
  op.scale /= std::sqrt(static_cast<float>(h.size));
  std::vector<SampleOperand> operands = {normal({rows, h.heads * h.size}), normal({keys, h.kv_heads * h.size}),
                                         normal({keys, h.kv_heads * h.value_size}), starts_of(batch.queries),
                                         starts_of(batch.keys)};
  if (op.bias == AttentionBias::distances) operands.push_back(normal({h.heads, table}));
  if (op.bias == AttentionBias::pairs) operands.push_back(normal({h.kv_heads == 1 ? 1 : h.heads, table, table + 2}));
  return make_sample(fmt::format("{}_{}by{}x{}{}", batch.name, h.heads, h.kv_heads, h.size, suffix), op,
                     std::move(operands), most + h.size);
}

}  // namespace

std::vector<Sample> DenseAttention::samples() {
  constexpr DenseHeads kHeads[] = {{4, 4, 16, 16}, {3, 1, 64, 64}, {2, 2, 6, 5},    {8, 2, 32, 32},
                                   {1, 1, 80, 48}, {4, 1, 20, 20}, {2, 1, 128, 128}};
  std::vector<Sample> list;
  std::size_t turn = 0;
  const auto add = [&](const RaggedBatch& batch, const DenseAttention& op, std::string_view suffix,
                       std::int64_t table = 9) {
    list.push_back(dense_sample(batch, kHeads[turn++ % std::size(kHeads)], op, suffix, table));
  };
  using enum AttentionBias;
  for (const RaggedBatch& batch : ragged_batches()) {
    add(batch, {}, "");
    add(batch, {.causal = true}, "_causal");
    add(batch, {.window = 5, .causal = true}, "_causal_window_5");
    add(batch, {.window = 3}, "_window_3");
    add(batch, {.bias = distances}, "_distances");
    add(batch, {.causal = true, .bias = distances}, "_causal_distances", 261);
    add(batch, {.bias = pairs}, "_pairs", 64);
  }
  const RaggedBatch& ragged = ragged_batches()[2];
  add(ragged, {.scale = 30.0f, .softcap = 20.0f}, "_softcap_20");
  add(ragged, {.softcap = 0.5f, .bias = pairs}, "_softcap_half_pairs");
  add(ragged, {.scale = 0.0f}, "_scale_0");
  add(ragged, {.scale = 60.0f}, "_sharp");
  add(ragged, {.window = 100000}, "_window_all");
  return list;
}

std::vector<Sample> AttentionMask::samples() {
  std::vector<Sample> list;
  for (const RaggedBatch& batch : ragged_batches()) {
    std::int64_t rows = 0, keys = 0;
    for (const std::int32_t n : batch.queries) rows += n;
    for (const std::int32_t n : batch.keys) keys += n;
    const std::vector<SampleOperand> values = {normal({rows, 3}), normal({keys, 2}), starts_of(batch.queries),
                                                 starts_of(batch.keys)};
    using enum AttentionBias;
    const auto add = [&](const AttentionMask& op, std::string_view suffix) {
      list.push_back(make_sample(fmt::format("{}{}", batch.name, suffix), op, values));
    };
    add({}, "");
    add({.window = 5, .causal = true}, "_causal_window_5");
    add({.first = 9, .window = 3, .bias = distances}, "_window_3_distances");
    add({.first = 6, .second = 8, .causal = true, .bias = pairs}, "_causal_pairs");
  }
  return list;
}

std::vector<Sample> RelativeBias::samples() {
  return {make_sample("t5", RelativeBias{}, {normal({32, 12})}),
          make_sample("t5_decoder", RelativeBias{128, false}, {normal({32, 8})}),
          make_sample("small", RelativeBias{16, true}, {normal({8, 4})}),
          make_sample("small_decoder", RelativeBias{16, false}, {normal({8, 4})}),
          make_sample("least", RelativeBias{2, true}, {normal({4, 1})}),
          make_sample("least_decoder", RelativeBias{2, false}, {normal({2, 3})}),
          make_sample("odd", RelativeBias{100, false}, {normal({7, 5})})};
}

std::vector<Sample> PoolSequences::samples() {
  std::vector<Sample> list;
  constexpr std::int64_t kColumns[] = {1, 17, 48, 64};
  for (std::size_t kind = 0; kind < kSequencePoolingNames.size(); ++kind)
    for (const std::vector<std::int32_t>& lengths :
         {std::vector<std::int32_t>{1}, std::vector<std::int32_t>{3, 0, 70, 1}, std::vector<std::int32_t>{8, 8}}) {
      std::int64_t rows = 0;
      for (const std::int32_t n : lengths) rows += n;
      list.push_back(make_sample(fmt::format("{}_{}_of_{}", kSequencePoolingNames[kind], rows, lengths.size()),
                                 PoolSequences{static_cast<SequencePooling>(kind)},
                                 {normal({rows, kColumns[(kind + lengths.size()) % 4]}), starts_of(lengths)}, rows));
    }
  return list;
}

}  // namespace rlx
