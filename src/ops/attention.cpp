#include "ops/attention.h"

#include <algorithm>
#include <cmath>

#include "ir/graph.h"
#include "ops/access.h"
#include "ops/checks.h"
#include "ops/norm.h"
#include "ops/paged.h"
#include "ops/samples.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

using access::Part;
using paged::Sequences;

// k and v of an append: f32[rows, kv_heads * head_dim].
void infer_rows_of_cache(InferContext& c, int k, int v, const paged::KvDims& kv) {
  const Dim rows = c.in(k).dim(0), columns(kv.heads * kv.head_dim);
  for (int i : {k, v}) {
    checks::plain(c, i, DType::f32, 2);
    checks::has_columns(c, i, columns, "kv_heads * head_dim");
    checks::has_rows(c, i, rows, "the rows of k");
  }
}

void check_rope(InferContext& c, std::int32_t head_dim, std::int32_t rotary_dim, float magnitude) {
  checks::attribute(c, "head_dim", head_dim, 1, INT32_MAX);
  checks::attribute(c, "rotary_dim", rotary_dim, 2, head_dim);
  if (rotary_dim % 2 != 0) c.fail("rotary_dim: expected an even number, found {}", rotary_dim);
  if (!std::isfinite(magnitude)) c.fail("magnitude: expected a finite value, found {}", magnitude);
}

void check_attention(InferContext& c, const Attention& op, std::int64_t kv_heads) {
  checks::attribute(c, "heads", op.heads, 1, INT32_MAX);
  checks::attribute(c, "window", op.window, 0, INT32_MAX);
  checks::attribute(c, "softcap", double{op.softcap}, 0, checks::kNoLimit);
  if (!std::isfinite(op.scale)) c.fail("scale: expected a finite value, found {}", op.scale);
  if (op.heads % kv_heads != 0)
    c.fail("heads: expected a multiple of the cache's {} KV heads, found {}", kv_heads, op.heads);
}

void rotate(double* head, const std::vector<double>& angles, const Rope& op) {
  const auto pairs = static_cast<std::size_t>(op.rotary_dim / 2);
  for (std::size_t i = 0; i < pairs; ++i) {
    const double c = std::cos(angles[i]) * double{op.magnitude},
                 s = std::sin(angles[i]) * double{op.magnitude};
    double& first = head[op.style == RopeStyle::half ? i : 2 * i];
    double& second = head[op.style == RopeStyle::half ? i + pairs : 2 * i + 1];
    const double x = first, y = second;
    first = x * c - y * s;
    second = x * s + y * c;
  }
}

}  // namespace

void Rope::infer(InferContext& c) const {
  checks::operand_count(c, 3);
  check_rope(c, head_dim, rotary_dim, magnitude);
  checks::plain(c, 0, DType::f32, 2);
  checks::multiple(c, 0, head_dim, "heads");
  checks::vector(c, 1, DType::f32, rotary_dim / 2, "rotary_dim / 2");
  checks::vector(c, 2, DType::i32, c.in(0).dim(0), "the rows of x");
  c.out(c.in(0));
}

void Rope::reference(const KernelArgs& a) const {
  const TensorView &x = a.in[0], &positions = a.in[2], &y = a.out[0];
  const std::vector<double> inv_freq = access::load_rows(a.in[1], 0, 1);
  const bool narrow = a.in[1].dtype == DType::f32;  // else the exact arithmetic of gradient checks
  std::vector<double> row(static_cast<std::size_t>(access::columns(x))), angles(inv_freq.size());
  const Part part = access::part_of(a, x.dims[0]);
  for (std::int64_t r = part.begin; r < part.end; ++r) {
    access::load_row(x, r, row.data());
    const auto position = static_cast<double>(access::load_int(positions, r));
    for (std::size_t i = 0; i < angles.size(); ++i) {
      const double angle = position * inv_freq[i];
      angles[i] = narrow ? static_cast<double>(static_cast<float>(angle)) : angle;
    }
    for (std::size_t h = 0; h < row.size(); h += static_cast<std::size_t>(head_dim))
      rotate(row.data() + h, angles, *this);
    access::store_row(y, r, row.data());
  }
}

void KvAppend::infer(InferContext& c) const {
  checks::operand_count(c, 7);
  const paged::KvDims kv = paged::infer_cache(c, 0);
  infer_rows_of_cache(c, 1, 2, kv);
  paged::infer_sequences(c, 3);
  c.out(c.in(0));
}

void KvAppend::reference(const KernelArgs& a) const {
  const TensorView &cache = a.in[0], &k = a.in[1], &v = a.in[2];
  const Sequences seqs(a, 3, cache, k.dims[0]);
  const std::int64_t heads = cache.dims[0], d = cache.dims[1];
  const EncodeRow encode = encoder(cache.dtype);
  std::vector<double> row(static_cast<std::size_t>(heads * d));
  std::vector<float> values(row.size());
  const Part part = access::part_of(a, k.dims[0]);
  for (std::int64_t b = 0; b < seqs.count(); ++b)
    for (std::int64_t r = std::max(part.begin, seqs.begin(b)); r < std::min(part.end, seqs.end(b));
         ++r)
      for (const bool keys : {true, false}) {
        access::load_row(keys ? k : v, r, row.data());
        std::transform(row.begin(), row.end(), values.begin(),
                       [](double x) { return static_cast<float>(x); });
        for (std::int64_t h = 0; h < heads; ++h)
          encode(values.data() + h * d, seqs.token(b, seqs.position(b, r), h, keys), d);
      }
}

void RopeAppend::infer(InferContext& c) const {
  checks::operand_count(c, norm ? 12 : 10, norm ? "with q_norm, k_norm" : "without norms");
  check_rope(c, head_dim, rotary_dim, magnitude);
  checks::attribute(c, "eps", double{eps}, 0, checks::kNoLimit);
  const paged::KvDims kv = paged::infer_cache(c, 0);
  if (kv.head_dim != head_dim)
    c.fail("head_dim: expected the cache's {}, found {}", kv.head_dim, head_dim);
  infer_rows_of_cache(c, 2, 3, kv);
  checks::plain(c, 1, DType::f32, 2);
  checks::multiple(c, 1, head_dim, "heads");
  checks::has_rows(c, 1, c.in(2).dim(0), "the rows of k");
  paged::infer_sequences(c, 4);
  checks::vector(c, 8, DType::f32, rotary_dim / 2, "rotary_dim / 2");
  checks::vector(c, 9, DType::i32, c.in(1).dim(0), "the rows of q");
  for (int i = 10; i < c.arity(); ++i) checks::vector(c, i, DType::f32, head_dim, "head_dim");
  c.out(c.in(1));
  c.out(c.in(0));
}

void RopeAppend::decompose(Body& b) const {
  const RmsNorm head_norm{.eps = eps, .weight_offset = weight_offset, .group = head_dim};
  const Rope rotate_heads{
      .head_dim = head_dim, .rotary_dim = rotary_dim, .style = style, .magnitude = magnitude};
  Value q = b.in(1), k = b.in(2);
  if (norm) {
    q = b.b(head_norm, q, b.in(10));
    k = b.b(head_norm, k, b.in(11));
  }
  q = b.b(rotate_heads, q, b.in(8), b.in(9));
  k = b.b(rotate_heads, k, b.in(8), b.in(9));
  b.ret({q, b.b(KvAppend{}, b.in(0), k, b.in(3), b.in(4), b.in(5), b.in(6), b.in(7))});
}

void Attention::infer(InferContext& c) const {
  checks::operand_count(c, 6);
  const paged::KvDims kv = paged::infer_cache(c, 1);
  check_attention(c, *this, kv.heads);
  checks::plain(c, 0, DType::f32, 2);
  checks::has_columns(c, 0, heads * kv.head_dim, "heads * head_dim");
  paged::infer_sequences(c, 2);
  c.out(c.in(0));
}

namespace {

// One query against the keys and values first..last of its sequence: softmax in two passes, all in
// double.
struct HeadCache {
  std::int64_t d;
  std::vector<double> k, v;  // [tokens, d]
};

void attend(const Attention& op, const HeadCache& cache, const double* q, Part keys, double* out) {
  std::vector<double> scores(static_cast<std::size_t>(keys.end - keys.begin));
  double largest = -INFINITY;
  for (std::int64_t t = keys.begin; t < keys.end; ++t) {
    double dot = 0;
    for (std::int64_t i = 0; i < cache.d; ++i)
      dot += q[i] * cache.k[static_cast<std::size_t>(t * cache.d + i)];
    double score = dot * double{op.scale};
    if (op.softcap > 0) score = double{op.softcap} * std::tanh(score / double{op.softcap});
    scores[static_cast<std::size_t>(t - keys.begin)] = score;
    largest = std::max(largest, score);
  }
  double total = 0;
  for (double& s : scores) total += s = std::exp(s - largest);
  std::fill(out, out + cache.d, 0.0);
  for (std::int64_t t = keys.begin; t < keys.end; ++t) {
    const double weight = scores[static_cast<std::size_t>(t - keys.begin)] / total;
    for (std::int64_t i = 0; i < cache.d; ++i)
      out[i] += weight * cache.v[static_cast<std::size_t>(t * cache.d + i)];
  }
}

}  // namespace

void Attention::reference(const KernelArgs& a) const {
  const TensorView &q = a.in[0], &cache = a.in[1], &y = a.out[0];
  const Sequences seqs(a, 2, cache, q.dims[0]);
  const std::int64_t kv_heads = cache.dims[0], d = cache.dims[1], group = heads / kv_heads;
  std::vector<double> row(static_cast<std::size_t>(heads * d)), result(static_cast<std::size_t>(d));
  const Part part = access::part_of(a, seqs.count() * kv_heads);
  for (std::int64_t item = part.begin; item < part.end; ++item) {
    const std::int64_t b = item / kv_heads, kv_head = item % kv_heads;
    if (seqs.begin(b) == seqs.end(b)) continue;
    const HeadCache head{d, seqs.load_head(b, kv_head, true), seqs.load_head(b, kv_head, false)};
    for (std::int64_t r = seqs.begin(b); r < seqs.end(b); ++r) {
      access::load_row(q, r, row.data());
      const std::int64_t at = seqs.position(b, r);
      const Part keys{window > 0 ? std::max<std::int64_t>(0, at - window + 1) : 0, at + 1};
      for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
        attend(*this, head, row.data() + h * d, keys, result.data());
        for (std::int64_t i = 0; i < d; ++i)
          access::store(y, r, h * d + i, result[static_cast<std::size_t>(i)]);
      }
    }
  }
}

using samples::Batch;
using samples::frequencies;
using samples::given;
using samples::normal;

std::vector<Sample> Rope::samples() {
  const Rope forms[] = {
      {.head_dim = 64, .rotary_dim = 64},
      {.head_dim = 64, .rotary_dim = 64, .style = RopeStyle::adjacent},
      {.head_dim = 80, .rotary_dim = 20},
      {.head_dim = 128, .rotary_dim = 32, .style = RopeStyle::adjacent, .magnitude = 1.36889f},
      {.head_dim = 256, .rotary_dim = 256, .magnitude = 0.5f},
      {.head_dim = 6, .rotary_dim = 2},
      {.head_dim = 10, .rotary_dim = 10, .style = RopeStyle::adjacent}};
  std::vector<Sample> list;
  for (std::size_t i = 0; i < 7; ++i) {
    const std::int64_t rows = samples::kRows[i], heads = 1 + static_cast<std::int64_t>(i % 3);
    std::vector<std::int32_t> positions;
    for (std::int32_t r = 0; r < rows; ++r)
      positions.push_back(r % 5 == 4 ? 100000 + r : 3 + 11 * r);
    list.push_back(make_sample(
        fmt::format("{}_{}x{}_of_{}", kRopeStyleNames[static_cast<std::size_t>(forms[i].style)],
                    rows, forms[i].rotary_dim, forms[i].head_dim),
        forms[i],
        {normal({rows, heads * forms[i].head_dim}),
         frequencies(forms[i].rotary_dim / 2, i % 2 == 0 ? 10000.0f : 1e6f),
         given(std::move(positions))}));
  }
  return list;
}

namespace {

constexpr DType kCacheTypes[] = {DType::f32, DType::f16, DType::bf16, DType::q8_0};

// Sizes of heads, in turn: grouped and not, widths that are no multiple of a panel for the plain
// dtypes.
struct Heads {
  std::int32_t heads, kv_heads, head_dim;
};
Heads deal_heads(DType cache, std::size_t turn) {
  constexpr Heads kAny[] = {{3, 1, 64},  {4, 4, 32}, {8, 2, 128}, {2, 1, 20},
                            {4, 1, 256}, {9, 3, 64}, {2, 2, 6}};
  constexpr Heads kBlocks[] = {{3, 1, 64}, {4, 4, 32}, {8, 2, 128}, {4, 1, 96}, {9, 3, 64}};
  return cache == DType::q8_0 ? kBlocks[turn % 5] : kAny[turn % 7];
}

std::string batch_name(const Batch& batch, DType cache, const Heads& h) {
  return fmt::format("{}_{}_{}_by_{}x{}", batch.name, rlx::name(cache), h.heads, h.kv_heads,
                     h.head_dim);
}

}  // namespace

std::vector<Sample> KvAppend::samples() {
  std::vector<Sample> list;
  std::size_t turn = 0;
  for (const DType d : kCacheTypes)
    for (const Batch& batch : samples::batches()) {
      const Heads h = deal_heads(d, turn++);
      const SampleOperand rows = normal({batch.total_rows(), h.kv_heads * h.head_dim});
      list.push_back(
          make_sample(batch_name(batch, d, h), KvAppend{},
                      {batch.cache(h.kv_heads, h.head_dim, d), rows, rows, batch.seq_start(),
                       batch.pasts(), batch.slot_ids(), batch.pages()}));
    }
  return list;
}

std::vector<Sample> RopeAppend::samples() {
  std::vector<Sample> list;
  std::size_t turn = 0;
  for (const DType d : kCacheTypes)
    for (const Batch& batch : samples::batches()) {
      const Heads h = deal_heads(d, turn);
      RopeAppend op{
          .head_dim = h.head_dim,
          .rotary_dim = turn % 3 == 1 && h.head_dim >= 20 ? h.head_dim / 4 * 2 : h.head_dim};
      op.style = turn % 2 == 0 ? RopeStyle::half : RopeStyle::adjacent;
      op.magnitude = turn % 4 == 3 ? 1.36889f : 1.0f;
      op.norm = turn % 5 < 2;
      op.eps = turn % 5 == 1 ? 0.25f : 1e-6f;
      op.weight_offset = turn % 5 == 1 ? 1.0f : 0.0f;
      const std::int64_t n = batch.total_rows(), kv_columns = h.kv_heads * h.head_dim;
      std::vector<SampleOperand> values = {batch.cache(h.kv_heads, h.head_dim, d),
                                           normal({n, h.heads * h.head_dim}),
                                           normal({n, kv_columns}),
                                           normal({n, kv_columns}),
                                           batch.seq_start(),
                                           batch.pasts(),
                                           batch.slot_ids(),
                                           batch.pages(),
                                           frequencies(op.rotary_dim / 2),
                                           batch.positions()};
      if (op.norm) values.insert(values.end(), 2, normal({h.head_dim}));
      list.push_back(
          make_sample(batch_name(batch, d, h), op, std::move(values), op.norm ? h.head_dim : 1));
      ++turn;
    }
  return list;
}

std::vector<Sample> Attention::samples() {
  std::vector<Sample> list;
  std::size_t turn = 0;
  const auto add = [&](const Batch& batch, DType d, const Attention& form,
                       std::string_view suffix) {
    const Heads h = deal_heads(d, turn++);
    Attention op = form;
    op.heads = h.heads;
    op.scale = form.scale / std::sqrt(static_cast<float>(h.head_dim));
    std::int64_t context = 0;
    Batch after = batch;  // the op reads a cache that already holds the rows
    for (std::size_t b = 0; b < batch.rows.size(); ++b) {
      after.past[b] += batch.rows[b];
      context = std::max<std::int64_t>(context, after.past[b]);
    }
    list.push_back(make_sample(
        batch_name(batch, d, h) + std::string(suffix), op,
        {normal({batch.total_rows(), h.heads * h.head_dim}), after.cache(h.kv_heads, h.head_dim, d),
         batch.seq_start(), batch.pasts(), batch.slot_ids(), batch.pages()},
        context + h.head_dim));
  };
  for (const DType d : kCacheTypes) {
    for (const Batch& batch : samples::batches()) add(batch, d, {}, "");
    const std::vector<Batch> all = samples::batches();
    for (const std::size_t i : {6u, 8u}) {  // a chunk that crosses a page; a ragged batch
      add(all[i], d, {.window = 1}, "_window_1");
      add(all[i], d, {.window = 5}, "_window_5");
      add(all[i], d, {.window = 64}, "_window_64");
      add(all[i], d, {.window = 100000}, "_window_all");
      add(all[i], d, {.scale = 30.0f, .softcap = 20.0f}, "_softcap_20");
      add(all[i], d, {.softcap = 0.5f, .window = 66}, "_softcap_half_window_66");
      add(all[i], d, {.scale = 0.0f}, "_scale_0");
      add(all[i], d, {.scale = 60.0f}, "_sharp");
    }
  }
  return list;
}

}  // namespace rlx
