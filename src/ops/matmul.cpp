#include "ops/matmul.h"

#include <cmath>

#include "ir/graph.h"
#include "ops/access.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/samples.h"

namespace rlx {
namespace {

// x [..., k] times the transpose of operand w [n, k].
void infer_product(InferContext& c, int w) {
  c.dtype(0, {DType::f32, DType::xq8, DType::bf16});
  if (c.in(0).rank() < 1) c.fail("x: expected at least one dim, found {}", c.in(0).text());
  checks::plain(c, 0, c.in(0).dtype, c.in(0).rank());
  checks::weight(c, w);
  checks::same(c, c.in(0).dim(-1), c.in(w).dim(1), [&] {
    return fmt::format("x has {} columns but {} {} expects {}", c.in(0).dim(-1).text(),
                       c.operand(w), checks::dims_text(c.in(w)), c.in(w).dim(1).text());
  });
}

std::string_view operand_list(const Linear& op) {
  if (op.bias && op.residual) return "x, w, bias, residual";
  if (op.bias) return "x, w, bias";
  return op.residual ? "x, w, residual" : "x, w";
}

}  // namespace

void Linear::infer(InferContext& c) const {
  checks::operand_count(c, 2 + bias + residual, operand_list(*this));
  infer_product(c, 1);
  const Dim n = c.in(1).dim(0);
  const Shape y = c.in(0).with(DType::f32).with_dim(-1, n);
  if (bias) {
    checks::plain(c, 2, DType::f32, 1);
    checks::same(c, c.in(2).dim(0), n, [&] {
      return fmt::format("bias has {} values but w {} gives {} columns", c.in(2).dim(0).text(),
                         checks::dims_text(c.in(1)), n.text());
    });
  }
  if (residual) checks::residual(c, residual_at(), y);
  c.out(y);
}

void Linear::reference(const KernelArgs& a) const {
  const TensorView &x = a.in[0], &w = a.in[1], &y = a.out[0];
  const std::int64_t rows = access::row_count(x), k = access::columns(x);
  const std::vector<double> xs = access::load_rows(x, 0, rows);
  std::vector<double> weights(static_cast<std::size_t>(k));
  const auto part = access::part_of(a, w.dims[0]);
  for (std::int64_t j = part.begin; j < part.end; ++j) {
    access::load_row(w, j, weights.data());
    const double start = bias ? access::load(a.in[bias_at()], 0, j) : 0.0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const double* row = xs.data() + r * k;
      double sum = 0;
      for (std::int64_t i = 0; i < k; ++i) sum += row[i] * weights[static_cast<std::size_t>(i)];
      double value = apply(act, sum + start);
      if (residual) value += access::load(a.in[residual_at()], r, j);
      access::store(y, r, j, value);
    }
  }
}

void GatedLinear::infer(InferContext& c) const {
  checks::operand_count(c, 3);
  infer_product(c, 1);
  infer_product(c, 2);
  const Shape &gate = c.in(1), &up = c.in(2);
  if (gate.dtype != up.dtype || gate.layout != up.layout)
    c.fail("gate {} and up {} must have one storage type and layout", gate.text(), up.text());
  checks::same(c, gate.dim(0), up.dim(0), [&] {
    return fmt::format("gate {} and up {} must have as many rows: {} and {} differ",
                       checks::dims_text(gate), checks::dims_text(up), gate.dim(0).text(),
                       up.dim(0).text());
  });
  c.out(c.in(0).with(DType::f32).with_dim(-1, gate.dim(0)));
}

void GatedLinear::decompose(Body& b) const {
  const Value gate = b.b(Activation{.act = act}, b.b(Linear{}, b.in(0), b.in(1)));
  b.ret({b.b(Mul{}, gate, b.b(Linear{}, b.in(0), b.in(2)))});
}

using samples::normal;

namespace {

// Activations that a product with weights of a dtype may get (kernels.md, 2.8).
std::vector<DType> activation_dtypes(DType weight) {
  if (is_quantized(weight)) return {DType::f32, DType::xq8};
  if (weight == DType::bf16) return {DType::f32, DType::bf16};
  return {DType::f32};
}

// Weights as trained ones are: results near 1.
float weight_scale(std::int64_t k) { return 1.0f / std::sqrt(static_cast<float>(k)); }

void add_linear(std::vector<Sample>& list, Linear op, DType x, DType w, std::size_t turn) {
  const std::int64_t rows = samples::deal(samples::kRows, turn),
                     n = samples::deal(samples::kWidths, turn);
  const std::int64_t k =
      samples::deal_row_length(x == DType::xq8 && !is_quantized(w) ? x : w, turn);
  std::vector<SampleOperand> operands = {normal({rows, k}, x), normal({n, k}, w, weight_scale(k))};
  if (op.bias) operands.push_back(normal({n}));
  if (op.residual) operands.push_back(normal({rows, n}));
  list.push_back(make_sample(
      fmt::format("{}_{}_{}x{}x{}{}{}{}{}", rlx::name(x), rlx::name(w), rows, n, k,
                  op.bias ? "_bias" : "", op.residual ? "_residual" : "",
                  op.act == Act::none ? "" : "_",
                  op.act == Act::none ? "" : kActNames[static_cast<std::size_t>(op.act)]),
      op, std::move(operands), k));
}

}  // namespace

std::vector<Sample> Linear::samples() {
  const Linear forms[] = {{},
                          {.bias = true},
                          {.residual = true},
                          {.act = Act::silu},
                          {.act = Act::gelu_tanh, .bias = true, .residual = true},
                          {.act = Act::gelu, .residual = true},
                          {.act = Act::relu, .bias = true}};
  std::vector<Sample> list;
  std::size_t turn = 0;
  for (const DType w : samples::weight_dtypes())
    for (const DType x : activation_dtypes(w))
      for (int i = 0; i < 6; ++i, ++turn)
        add_linear(list, i < 3 ? Linear{} : forms[turn % 7], x, w, turn);
  for (const Linear& form : forms)  // every form with float and with int8 activations
    for (const DType x : {DType::f32, DType::xq8})
      add_linear(list, form, x, x == DType::f32 ? DType::f32 : DType::q4_0, ++turn);
  const std::int64_t k = 64;
  list.push_back(make_sample("rank_3", Linear{},
                             {normal({2, 3, k}), normal({17, k}, DType::f32, weight_scale(k))}, k));
  list.push_back(make_sample(
      "outlier", Linear{},
      {normal({5, k}, DType::f32, 1e4f), normal({16, k}, DType::q8_0, weight_scale(k))}, k));
  list.push_back(make_sample(
      "zero_x", Linear{.bias = true},
      {normal({3, k}, DType::xq8, 0.0f), normal({17, k}, DType::q4_1), normal({17})}, k));
  return list;
}

std::vector<Sample> GatedLinear::samples() {
  std::vector<Sample> list;
  std::size_t turn = 0;
  constexpr Act kActs[] = {Act::silu, Act::gelu_tanh, Act::gelu, Act::relu, Act::none};
  for (const DType w : samples::weight_dtypes())
    for (const DType x : activation_dtypes(w))
      for (int i = 0; i < 2; ++i, ++turn) {
        const std::int64_t rows = samples::deal(samples::kRows, turn),
                           n = samples::deal(samples::kWidths, turn);
        const std::int64_t k = samples::deal_row_length(w, turn);
        const Act form = kActs[turn % 5];
        const SampleOperand weights = normal({n, k}, w, weight_scale(k));
        list.push_back(
            make_sample(fmt::format("{}_{}_{}x{}x{}_{}", rlx::name(x), rlx::name(w), rows, n, k,
                                    kActNames[static_cast<std::size_t>(form)]),
                        GatedLinear{.act = form}, {normal({rows, k}, x), weights, weights}, k));
      }
  return list;
}

}  // namespace rlx
