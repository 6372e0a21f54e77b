#include "ops/block.h"

#include "ir/graph.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/paged.h"

namespace rlx {
namespace {

enum Operand : int { kX, kCache, kSeqStart, kPast, kSlot, kPages, kPositions, kInvFreq, kWq, kWk, kWv, kWo, kOptional };

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
  if (kv.head_dim != op.head_dim) c.fail("head_dim: expected the cache's {}, found {}", kv.head_dim, op.head_dim);
  if (op.heads % kv.heads != 0)
    c.fail("heads: expected a multiple of the cache's {} KV heads, found {}", kv.heads, op.heads);
  if (!op.rope) return;
  checks::attribute(c, "rotary_dim", op.rotary_dim, 2, op.head_dim);
  if (op.rotary_dim % 2 != 0) c.fail("rotary_dim: expected an even number, found {}", op.rotary_dim);
}

void check_weight(InferContext& c, int w, Dim rows, std::string_view rows_of, Dim columns, std::string_view columns_of) {
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
  constexpr std::string_view kQ = "heads * head_dim", kKv = "kv_heads * head_dim", kHidden = "the columns of x";
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
    const Rope rotate{.head_dim = head_dim, .rotary_dim = rotary_dim, .style = style, .magnitude = magnitude};
    q = b.b(rotate, q, b.in(kInvFreq), b.in(kPositions));
    k = b.b(rotate, k, b.in(kInvFreq), b.in(kPositions));
  }
  const Value seq_start = b.in(kSeqStart), past = b.in(kPast), slot = b.in(kSlot), pages = b.in(kPages);
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

}  // namespace rlx
