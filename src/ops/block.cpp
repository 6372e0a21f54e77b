#include "ops/block.h"

#include <cmath>

#include "ir/graph.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/paged.h"
#include "ops/samples.h"

namespace rlx {
namespace {

enum Operand : int {
  kX,
  kCache,
  kSeqStart,
  kPast,
  kSlot,
  kPages,
  kPositions,
  kInvFreq,
  kWq,
  kWk,
  kWv,
  kWo,
  kOptional
};

// Places of the optional operands; -1 when absent.
struct OptionalPlaces {
  explicit OptionalPlaces(const SelfAttention& op) {
    if (op.qkv_bias) {
      bq = count;
      bk = count + 1;
      bv = count + 2;
      count += 3;
    }
    if (op.out_bias) bo = count++;
    if (op.qk_norm) {
      q_norm = count;
      k_norm = count + 1;
      count += 2;
    }
  }
  int bq = -1, bk = -1, bv = -1, bo = -1, q_norm = -1, k_norm = -1;
  int count = kOptional;  ///< of all operands
};

std::string optional_names(const SelfAttention& op) {
  std::string names;
  const auto add = [&](bool present, std::string_view what) {
    if (present) names += (names.empty() ? "with " : ", ") + std::string(what);
  };
  add(op.qkv_bias, "bq, bk, bv");
  add(op.out_bias, "bo");
  add(op.qk_norm, "q_norm, k_norm");
  return names.empty() ? "without biases and norms" : names;
}

void check_attributes(InferContext& c, const SelfAttention& op, const paged::KvDims& kv) {
  checks::attribute(c, "heads", op.heads, 1, INT32_MAX);
  checks::attribute(c, "window", op.window, 0, INT32_MAX);
  checks::attribute(c, "softcap", double{op.softcap}, 0, checks::kNoLimit);
  checks::attribute(c, "eps", double{op.eps}, 0, checks::kNoLimit);
  if (kv.head_dim != op.head_dim)
    c.fail("head_dim: expected the cache's {}, found {}", kv.head_dim, op.head_dim);
  if (op.heads % kv.heads != 0)
    c.fail("heads: expected a multiple of the cache's {} KV heads, found {}", kv.heads, op.heads);
  if (!op.rope) return;
  checks::attribute(c, "rotary_dim", op.rotary_dim, 2, op.head_dim);
  if (op.rotary_dim % 2 != 0)
    c.fail("rotary_dim: expected an even number, found {}", op.rotary_dim);
}

void check_weight(InferContext& c, int w, Dim rows, std::string_view rows_of, Dim columns,
                  std::string_view columns_of) {
  checks::weight(c, w);
  checks::has_rows(c, w, rows, rows_of);
  checks::has_columns(c, w, columns, columns_of);
}

}  // namespace

void SelfAttention::infer(InferContext& c) const {
  const OptionalPlaces at(*this);
  checks::operand_count(c, at.count, optional_names(*this));
  const paged::KvDims kv = paged::infer_cache(c, kCache);
  check_attributes(c, *this, kv);
  checks::plain(c, kX, DType::f32, 2);
  const Dim hidden = c.in(kX).dim(1);
  const Dim q_columns = Dim(heads) * Dim(head_dim), kv_columns = Dim(kv.heads) * Dim(head_dim);
  constexpr std::string_view kQ = "heads * head_dim", kKv = "kv_heads * head_dim",
                             kHidden = "the columns of x";
  paged::infer_sequences(c, kSeqStart);
  checks::vector(c, kPositions, DType::i32, c.in(kX).dim(0), "the rows of x");
  if (rope) checks::vector(c, kInvFreq, DType::f32, rotary_dim / 2, "rotary_dim / 2");
  check_weight(c, kWq, q_columns, kQ, hidden, kHidden);
  check_weight(c, kWk, kv_columns, kKv, hidden, kHidden);
  check_weight(c, kWv, kv_columns, kKv, hidden, kHidden);
  check_weight(c, kWo, hidden, kHidden, q_columns, kQ);
  if (qkv_bias) {
    checks::vector(c, {at.bq, "bq"}, DType::f32, q_columns, kQ);
    checks::vector(c, {at.bk, "bk"}, DType::f32, kv_columns, kKv);
    checks::vector(c, {at.bv, "bv"}, DType::f32, kv_columns, kKv);
  }
  if (out_bias) checks::vector(c, {at.bo, "bo"}, DType::f32, hidden, kHidden);
  if (qk_norm) {
    checks::vector(c, {at.q_norm, "q_norm"}, DType::f32, head_dim, "head_dim");
    checks::vector(c, {at.k_norm, "k_norm"}, DType::f32, head_dim, "head_dim");
  }
  c.out(c.in(kX));
  c.out(c.in(kCache));
}

void SelfAttention::decompose(Body& b) const {
  const OptionalPlaces at(*this);
  const auto product = [&](Value x, int w, int bias) {
    const Value y = b.b(Linear{}, x, b.in(w));
    return bias < 0 ? y : b.b(Add{}, y, b.in(bias));
  };
  Value q = product(b.in(kX), kWq, at.bq);
  Value k = product(b.in(kX), kWk, at.bk);
  const Value v = product(b.in(kX), kWv, at.bv);
  if (qk_norm) {
    const RmsNorm head_norm{.eps = eps, .weight_offset = weight_offset, .group = head_dim};
    q = b.b(head_norm, q, b.in(at.q_norm));
    k = b.b(head_norm, k, b.in(at.k_norm));
  }
  if (rope) {
    const Rope rotate{
        .head_dim = head_dim, .rotary_dim = rotary_dim, .style = style, .magnitude = magnitude};
    q = b.b(rotate, q, b.in(kInvFreq), b.in(kPositions));
    k = b.b(rotate, k, b.in(kInvFreq), b.in(kPositions));
  }
  const Value seq_start = b.in(kSeqStart), past = b.in(kPast), slot = b.in(kSlot),
              pages = b.in(kPages);
  const Value cache = b.b(KvAppend{}, b.in(kCache), k, v, seq_start, past, slot, pages);
  const Attention attention{.heads = heads, .scale = scale, .softcap = softcap, .window = window};
  const Value mixed = b.b(attention, q, cache, seq_start, past, slot, pages);
  b.ret({product(mixed, kWo, at.bo), cache});
}

void GatedMlp::infer(InferContext& c) const {
  checks::operand_count(c, 4);
  checks::plain(c, 0, DType::f32, 2);
  checks::weight(c, 1);
  const Dim hidden = c.in(0).dim(1), inner = c.in(1).dim(0);
  checks::has_columns(c, 1, hidden, "the columns of x");
  check_weight(c, 2, inner, "the rows of gate", hidden, "the columns of x");
  check_weight(c, 3, hidden, "the columns of x", inner, "the rows of gate");
  c.out(c.in(0));
}

void GatedMlp::decompose(Body& b) const {
  const Value gate = b.b(Activation{.act = act}, b.b(Linear{}, b.in(0), b.in(1)));
  const Value up = b.b(Linear{}, b.in(0), b.in(2));
  b.ret({b.b(Linear{}, b.b(Mul{}, gate, up), b.in(3))});
}

void LmHead::infer(InferContext& c) const {
  checks::operand_count(c, 4);
  checks::attribute(c, "eps", double{eps}, 0, checks::kNoLimit);
  checks::attribute(c, "softcap", double{softcap}, 0, checks::kNoLimit);
  checks::plain(c, 0, DType::f32, 2);
  const Dim hidden = c.in(0).dim(1);
  checks::vector(c, 1, DType::f32, hidden, "the columns of x");
  checks::weight(c, 2);
  checks::has_columns(c, 2, hidden, "the columns of x");
  checks::plain(c, 3, DType::i32, 1);
  c.out(Shape({c.in(3).dim(0), c.in(2).dim(0)}, DType::f32));
}

void LmHead::decompose(Body& b) const {
  const Value wanted = b.b(SelectRows{}, b.in(0), b.in(3));
  const Value normed = b.b(RmsNorm{.eps = eps, .weight_offset = weight_offset}, wanted, b.in(1));
  const Value logits = b.b(Linear{}, normed, b.in(2));
  b.ret({softcap > 0 ? b.b(Softcap{.cap = softcap}, logits) : logits});
}

using samples::Batch;
using samples::normal;

namespace {

Sample self_attention_sample(const Batch& batch, SelfAttention op, DType cache, DType weight,
                             std::int64_t kv_heads) {
  const std::int64_t n = batch.total_rows(), hidden = is_quantized(weight) ? 256 : 40;
  const std::int64_t q = op.heads * op.head_dim, kv = kv_heads * op.head_dim;
  const float in_scale = 1.0f / std::sqrt(static_cast<float>(hidden)),
              out_scale = 1.0f / std::sqrt(static_cast<float>(q));
  std::vector<SampleOperand> operands = {normal({n, hidden}),
                                         batch.cache(kv_heads, op.head_dim, cache),
                                         batch.seq_start(),
                                         batch.pasts(),
                                         batch.slot_ids(),
                                         batch.pages(),
                                         batch.positions(),
                                         samples::frequencies(op.rotary_dim / 2),
                                         normal({q, hidden}, weight, in_scale),
                                         normal({kv, hidden}, weight, in_scale),
                                         normal({kv, hidden}, weight, in_scale),
                                         normal({hidden, q}, weight, out_scale)};
  if (op.qkv_bias)
    for (const std::int64_t size : {q, kv, kv}) operands.push_back(normal({size}));
  if (op.out_bias) operands.push_back(normal({hidden}));
  if (op.qk_norm) operands.insert(operands.end(), 2, normal({op.head_dim}));
  return make_sample(fmt::format("{}_{}_{}{}{}{}", batch.name, rlx::name(cache), rlx::name(weight),
                                 op.qkv_bias ? "_qkv_bias" : "", op.out_bias ? "_out_bias" : "",
                                 op.qk_norm ? "_qk_norm" : ""),
                     op, std::move(operands), hidden);
}

}  // namespace

std::vector<Sample> SelfAttention::samples() {
  std::vector<Sample> list;
  std::size_t turn = 0;
  for (const Batch& batch : samples::batches()) {
    const std::int32_t head_dim = turn % 5 == 3 ? 32 : 64;
    SelfAttention op{.heads = 4,
                     .head_dim = head_dim,
                     .rotary_dim = turn % 3 == 2 ? 16 : head_dim,
                     .scale = 0.125f};
    op.softcap = turn % 4 == 1 ? 5.0f : 0.0f;
    op.window = turn % 3 == 1 ? 7 : 0;
    op.magnitude = turn % 5 == 4 ? 1.36889f : 1.0f;
    op.eps = turn % 4 == 2 ? 0.25f : 1e-6f;
    op.weight_offset = turn % 4 == 2 ? 1.0f : 0.0f;
    op.style = turn % 2 == 0 ? RopeStyle::half : RopeStyle::adjacent;
    op.rope = turn % 7 != 6;
    op.qkv_bias = turn % 2 == 1;
    op.out_bias = turn % 4 == 3;
    op.qk_norm = turn % 4 >= 2;
    constexpr DType kCaches[] = {DType::f32, DType::f16, DType::bf16, DType::q8_0};
    constexpr DType kWeights[] = {DType::f32, DType::q4_0, DType::f16};
    list.push_back(self_attention_sample(batch, op, kCaches[turn % 4], kWeights[turn % 3],
                                         turn % 2 == 0 ? 2 : 1));
    ++turn;
  }
  return list;
}

std::vector<Sample> GatedMlp::samples() {
  std::vector<Sample> list;
  std::size_t turn = 0;
  for (const DType w : {DType::f32, DType::f16, DType::bf16, DType::q4_0, DType::q8_0, DType::q6_K})
    for (const Act form : {Act::silu, Act::gelu_tanh}) {
      const std::int64_t rows = samples::deal(samples::kRows, turn++),
                         hidden = is_quantized(w) ? 256 : 40, inner = 2 * hidden;
      list.push_back(make_sample(
          fmt::format("{}_{}_{}", rlx::name(w), rows, kActNames[static_cast<std::size_t>(form)]),
          GatedMlp{.act = form},
          {normal({rows, hidden}), normal({inner, hidden}, w, 0.1f),
           normal({inner, hidden}, w, 0.1f), normal({hidden, inner}, w, 0.1f)},
          inner));
    }
  return list;
}

std::vector<Sample> LmHead::samples() {
  std::vector<Sample> list;
  const LmHead forms[] = {{}, {.eps = 0.5f, .weight_offset = 1.0f}, {.softcap = 3.0f}};
  const std::vector<std::vector<std::int32_t>> picks = {{4}, {0, 1, 2, 3, 4}, {3, 1}};
  for (const DType w : {DType::f32, DType::q6_K, DType::bf16})
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t hidden = is_quantized(w) ? 256 : 36;
      list.push_back(
          make_sample(fmt::format("{}_{}_rows_form_{}", rlx::name(w), picks[i].size(), i), forms[i],
                      {normal({5, hidden}), normal({hidden}), normal({49, hidden}, w, 0.2f),
                       samples::given(picks[i])},
                      hidden));
    }
  return list;
}

}  // namespace rlx
