#include "ops/fused.h"

#include <bit>
#include <cmath>

#include "ir/graph.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/quant.h"
#include "ops/samples.h"

namespace rlx {

bool FusedLinear::prologue() const { return norm || to != DType::f32; }
int FusedLinear::products() const { return gated ? 1 : weights; }
int FusedLinear::norm_at() const { return norm ? 1 + weights : -1; }
int FusedLinear::residual_at() const { return residual ? operand_count() - 1 : -1; }

int FusedLinear::bias_at(int product) const {
  const auto set = static_cast<unsigned>(biases);
  if ((set >> product & 1u) == 0) return -1;
  return 1 + weights + norm + std::popcount(set & ((1u << product) - 1));
}

int FusedLinear::operand_count() const {
  return 1 + weights + norm + std::popcount(static_cast<unsigned>(biases)) + residual;
}

namespace {

void check_form(InferContext& c, const FusedLinear& op) {
  checks::attribute(c, "weights", op.weights, 1, 3);
  checks::attribute(c, "biases", op.biases, 0, (1 << op.weights) - 1);
  checks::attribute(c, "eps", double{op.eps}, 0, checks::kNoLimit);
  if (op.gated && op.weights != 2) c.fail("gated: expected 2 weights, found {}", op.weights);
  if (op.gated && op.biases != 0) c.fail("gated: a bias has no place");
  if (op.residual && (op.weights != 1)) c.fail("residual: expected 1 weight, found {}", op.weights);
  if (op.act != Act::none && op.weights != 1 && !op.gated)
    c.fail("act: expected 1 weight or a gated product, found {} weights", op.weights);
  if (op.to != DType::f32 && op.to != DType::bf16 && op.to != DType::xq8)
    c.fail("to: expected f32, bf16 or xq8, found {}", name(op.to));
}

void check_input(InferContext& c, const FusedLinear& op) {
  if (op.prologue())
    c.dtype(0, {DType::f32});
  else
    c.dtype(0, {DType::f32, DType::xq8, DType::bf16});
  if (c.in(0).rank() < 1) c.fail("x: expected at least one dim, found {}", c.in(0).text());
  checks::plain(c, {0, "x"}, c.in(0).dtype, op.to == DType::xq8 ? 2 : c.in(0).rank());
  if (op.to == DType::xq8) checks::multiple(c, {0, "x"}, 32, "groups of 32");
  if (op.norm) checks::vector(c, {op.norm_at(), "norm"}, DType::f32, c.in(0).dim(-1), "the columns of x");
}

}  // namespace

void FusedLinear::infer(InferContext& c) const {
  check_form(c, *this);
  checks::operand_count(c, operand_count());
  check_input(c, *this);
  for (int i = 0; i < weights; ++i) {
    checks::weight(c, {1 + i, "w"});
    checks::has_columns(c, {1 + i, "w"}, c.in(0).dim(-1), "the columns of x");
    if (const int at = bias_at(i); at >= 0)
      checks::vector(c, {at, "bias"}, DType::f32, c.in(1 + i).dim(0), "the rows of w");
  }
  if (gated) {
    const Shape &gate = c.in(1), &up = c.in(2);
    if (gate.dtype != up.dtype || gate.layout != up.layout)
      c.fail("gate {} and up {} must have one storage type and layout", gate.text(), up.text());
    checks::has_rows(c, {2, "up"}, gate.dim(0), "the rows of gate");
  }
  const Shape y = c.in(0).with(DType::f32);
  if (residual) checks::residual(c, residual_at(), y.with_dim(-1, c.in(1).dim(0)));
  for (int i = 0; i < products(); ++i) c.out(y.with_dim(-1, c.in(1 + i).dim(0)));
}

void FusedLinear::decompose(Body& b) const {
  Value h = b.in(0);
  if (norm && to == DType::xq8)
    h = b.b(RmsNormQuantize{.eps = eps, .weight_offset = weight_offset}, h, b.in(norm_at()));
  else if (norm)
    h = b.b(RmsNorm{.eps = eps, .weight_offset = weight_offset}, h, b.in(norm_at()));
  else if (to == DType::xq8)
    h = b.b(QuantizeRows{}, h);
  if (to == DType::bf16) h = b.b(Cast{.to = to}, h);
  if (gated) {
    b.ret({b.b(GatedLinear{.act = act}, h, b.in(1), b.in(2))});
    return;
  }
  Value y[3];
  for (int i = 0; i < weights; ++i) {
    std::vector<Value> in = {h, b.in(1 + i)};
    if (bias_at(i) >= 0) in.push_back(b.in(bias_at(i)));
    if (residual) in.push_back(b.in(residual_at()));
    y[i] = b.b.emit(Linear{.act = act, .bias = bias_at(i) >= 0, .residual = residual}, std::move(in));
  }
  if (weights == 1) b.ret({y[0]});
  if (weights == 2) b.ret({y[0], y[1]});
  if (weights == 3) b.ret({y[0], y[1], y[2]});
}

namespace {

// What a sample differs in.
struct FusedCase {
  std::string_view name;
  FusedLinear op;
  DType w[3] = {DType::f32, DType::f32, DType::f32};
  DType x = DType::f32;
};

Sample fused_sample(const FusedCase& f, std::size_t turn) {
  using samples::normal;
  // Row counts beyond one chunk of tokens too.
  const std::int64_t rows = turn % 5 == 4 ? 77 : samples::deal(samples::kRows, turn);
  const std::int64_t k = 256;
  const float scale = 1.0f / std::sqrt(static_cast<float>(k));
  std::vector<SampleOperand> operands = {normal({rows, k}, f.x)};
  std::vector<std::int64_t> n;
  for (int i = 0; i < f.op.weights; ++i) {
    n.push_back(f.op.gated ? 48 : samples::deal(samples::kWidths, turn + static_cast<std::size_t>(i)));
    operands.push_back(normal({n.back(), k}, f.w[i], scale));
  }
  if (f.op.norm) operands.push_back(normal({k}));
  for (int i = 0; i < f.op.weights; ++i)
    if (f.op.bias_at(i) >= 0) operands.push_back(normal({n[static_cast<std::size_t>(i)]}));
  if (f.op.residual) operands.push_back(normal({rows, n[0]}));
  return make_sample(fmt::format("{}_{}_{}", f.name, turn, rows), f.op, std::move(operands), k);
}

}  // namespace

std::vector<Sample> FusedLinear::samples() {
  using D = DType;
  const FusedCase cases[] = {
      {"qkv_f32", {.weights = 3}},
      {"qkv_norm_f16", {.weights = 3, .norm = true}, {D::f16, D::f16, D::f16}},
      {"qkv_bias_norm", {.weights = 3, .biases = 7, .norm = true, .eps = 0.1f}, {D::f32, D::f16, D::f32}},
      {"one_bias", {.weights = 2, .biases = 2, .norm = true, .weight_offset = 1.0f}},
      {"mixed_int8", {.weights = 3, .norm = true, .to = D::xq8}, {D::q4_K, D::q4_K, D::q6_K}},
      {"mixed_int8_many", {.weights = 3, .norm = true, .to = D::xq8}, {D::q4_0, D::q8_0, D::q5_1}},
      {"bf16", {.weights = 3, .norm = true, .to = D::bf16}, {D::bf16, D::bf16, D::bf16}},
      {"bf16_cast", {.weights = 1, .act = Act::gelu, .to = D::bf16}, {D::bf16}},
      {"quantised_input", {.weights = 2}, {D::q4_0, D::q6_K}, D::xq8},
      {"residual_int8", {.weights = 1, .residual = true, .to = D::xq8}, {D::q8_0}},
      {"residual_norm", {.weights = 1, .biases = 1, .act = Act::relu, .residual = true, .norm = true}, {D::f16}},
      {"gated", {.weights = 2, .act = Act::silu, .gated = true, .norm = true}, {D::f16, D::f16}},
      {"gated_int8",
       {.weights = 2, .act = Act::gelu_tanh, .gated = true, .norm = true, .eps = 1e-3f, .to = D::xq8},
       {D::q4_K, D::q4_K}},
      {"gated_bf16", {.weights = 2, .act = Act::silu, .gated = true, .to = D::bf16}, {D::bf16, D::bf16}},
  };
  std::vector<Sample> list;
  std::size_t turn = 0;
  for (const FusedCase& f : cases)
    for (int i = 0; i < 2; ++i) list.push_back(fused_sample(f, turn + static_cast<std::size_t>(i) * 4)), ++turn;
  return list;
}

}  // namespace rlx
