#include "ops/moe.h"

#include <cmath>

#include "ir/graph.h"
#include "ops/access.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduction.h"
#include "ops/samples.h"
#include "ops/shape_ops.h"

namespace rlx {
namespace {

// x [rows, k] or [rows, slots, k] times the transposes of operand w [experts, n, k], chosen by ids
// [rows, slots].
void infer_expert_product(InferContext& c, int w) {
  c.dtype(0, {DType::f32, DType::xq8, DType::bf16});
  const Shape& x = c.in(0);
  if (x.rank() != 2 && x.rank() != 3) c.fail("x: expected rank 2 or 3, found {}", x.text());
  checks::plain(c, 0, x.dtype, x.rank());
  checks::plain(c, 1, DType::i32, 2);
  const Shape& ids = c.in(1);
  for (int axis = 0; axis + 1 < x.rank(); ++axis)
    checks::same(c, x.dim(axis), ids.dim(axis), [&] {
      return fmt::format("x {} and ids {} must agree: {} and {} differ", checks::dims_text(x),
                         checks::dims_text(ids), x.dim(axis).text(), ids.dim(axis).text());
    });
  checks::weight(c, w, 3);
  checks::same(c, x.dim(-1), c.in(w).dim(2), [&] {
    return fmt::format("x has {} columns but {} {} expects {}", x.dim(-1).text(), c.operand(w),
                       checks::dims_text(c.in(w)), c.in(w).dim(2).text());
  });
}

Shape slots_shape(const Shape& ids, Dim columns) {
  return Shape({ids.dim(0), ids.dim(1), columns}, DType::f32);
}

}  // namespace

void ExpertLinear::infer(InferContext& c) const {
  checks::operand_count(c, 3 + bias, bias ? "x, ids, w, bias" : "x, ids, w");
  infer_expert_product(c, 2);
  const Shape& w = c.in(2);
  if (bias) {
    checks::plain(c, 3, DType::f32, 2);
    checks::has_rows(c, 3, w.dim(0), "experts");
    checks::has_columns(c, 3, w.dim(1), "the rows of an expert");
  }
  c.out(slots_shape(c.in(1), w.dim(1)));
}

void ExpertLinear::reference(const KernelArgs& a) const {
  const TensorView &x = a.in[0], &ids = a.in[1], &w = a.in[2], &y = a.out[0];
  const std::int64_t experts = w.dims[0], n = w.dims[1], k = w.dims[2], slots = ids.dims[1],
                     pairs = ids.dims[0] * slots;
  const std::vector<double> xs = access::load_rows(x, 0, access::row_count(x));
  std::vector<std::vector<std::int64_t>> chosen(static_cast<std::size_t>(experts));
  const auto part = access::part_of(a, n);
  for (std::int64_t p = 0; p < pairs; ++p) {
    const std::int64_t e = access::load_int(ids, p);
    if (e >= 0 && e < experts) {
      chosen[static_cast<std::size_t>(e)].push_back(p);
    } else {
      for (std::int64_t j = part.begin; j < part.end; ++j) access::store(y, p, j, 0.0);
    }
  }
  std::vector<double> weights(static_cast<std::size_t>(k));
  for (std::int64_t e = 0; e < experts; ++e)
    for (std::int64_t j = part.begin; j < part.end; ++j) {
      const std::vector<std::int64_t>& mine = chosen[static_cast<std::size_t>(e)];
      if (mine.empty()) break;
      access::load_row(w, e * n + j, weights.data());
      const double start = bias ? access::load(a.in[3], e, j) : 0.0;
      for (const std::int64_t p : mine) {
        const double* row = xs.data() + (x.rank == 3 ? p : p / slots) * k;
        double sum = 0;
        for (std::int64_t i = 0; i < k; ++i) sum += row[i] * weights[static_cast<std::size_t>(i)];
        access::store(y, p, j, sum + start);
      }
    }
}

void ExpertGatedLinear::infer(InferContext& c) const {
  checks::operand_count(c, 4);
  infer_expert_product(c, 2);
  infer_expert_product(c, 3);
  const Shape &gate = c.in(2), &up = c.in(3);
  if (gate.dtype != up.dtype || gate.layout != up.layout)
    c.fail("gate {} and up {} must have one storage type and layout", gate.text(), up.text());
  for (int axis : {0, 1})
    checks::same(c, gate.dim(axis), up.dim(axis), [&] {
      return fmt::format("gate {} and up {} must have the same dims: {} and {} differ",
                         checks::dims_text(gate), checks::dims_text(up), gate.dim(axis).text(),
                         up.dim(axis).text());
    });
  c.out(slots_shape(c.in(1), gate.dim(1)));
}

void ExpertGatedLinear::decompose(Body& b) const {
  const Value gate =
      b.b(Activation{.act = act}, b.b(ExpertLinear{}, b.in(0), b.in(1), b.in(2)));
  b.ret({b.b(Mul{}, gate, b.b(ExpertLinear{}, b.in(0), b.in(1), b.in(3)))});
}

void ExpertSum::infer(InferContext& c) const {
  checks::operand_count(c, 2);
  checks::plain(c, 0, DType::f32, 3);
  checks::plain(c, 1, DType::f32, 2);
  const Shape& x = c.in(0);
  for (int axis : {0, 1})
    checks::same(c, x.dim(axis), c.in(1).dim(axis), [&] {
      return fmt::format("x {} and weights {} must agree: {} and {} differ", checks::dims_text(x),
                         checks::dims_text(c.in(1)), x.dim(axis).text(),
                         c.in(1).dim(axis).text());
    });
  c.out(Shape({x.dim(0), x.dim(2)}, DType::f32));
}

void ExpertSum::decompose(Body& b) const {
  const Value weights = b.b(expand_dims(b.shape(1), 2), b.in(1));
  b.ret({b.b(Reduce{.axis = 1}, b.b(Mul{}, b.in(0), weights))});
}

void MoeMlp::infer(InferContext& c) const {
  checks::operand_count(c, 5 + bias, "x, router, gate, up, down, bias when the flag is set");
  checks::plain(c, 0, DType::f32, 2);
  const Dim hidden = c.in(0).dim(1);
  checks::weight(c, 1);
  const Dim experts = c.in(1).dim(0);
  checks::has_columns(c, 1, hidden, "the columns of x");
  for (int w : {2, 3, 4}) {
    checks::weight(c, w, 3);
    checks::has_rows(c, w, experts, "experts of the router");
  }
  const Dim inner = c.in(2).dim(1);
  checks::has_columns(c, 2, hidden, "the columns of x");
  checks::has_columns(c, 3, hidden, "the columns of x");
  checks::has_columns(c, 4, inner, "the rows of an expert of gate");
  const auto rows_of = [&](int w, Dim rows) {
    checks::same(c, c.in(w).dim(1), rows, [&] {
      return fmt::format("{} {}: expected {} rows in each expert, found {}", c.operand(w),
                         checks::dims_text(c.in(w)), rows.text(), c.in(w).dim(1).text());
    });
  };
  rows_of(3, inner);
  rows_of(4, hidden);
  if (bias) checks::vector(c, {5, "bias"}, DType::f32, experts, "experts");
  c.out(c.in(0));
}

void MoeMlp::decompose(Body& b) const {
  const Value logits = b.b(Linear{}, b.in(0), b.in(1));
  std::vector<Value> scored = {logits};
  if (bias) scored.push_back(b.in(5));
  const Value ids = b.b.emit(route(), scored), weights = b.b.result(ids, 1);
  const Value inner = b.b(ExpertGatedLinear{.act = act}, b.in(0), ids, b.in(2), b.in(3));
  b.ret({b.b(ExpertSum{}, b.b(ExpertLinear{}, inner, ids, b.in(4)), weights)});
}

using samples::normal;

namespace {

float expert_scale(std::int64_t k) { return 1.0f / std::sqrt(static_cast<float>(k)); }

// Ids that leave an expert without rows, give one most of them, and point outside now and then.
SampleOperand expert_ids(std::int64_t rows, std::int64_t slots, std::int64_t experts) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < rows * slots; ++i) {
    const std::int64_t e = i % 3 == 0 ? 1 : (i * 7 + i / 5) % experts;
    ids.push_back(static_cast<std::int32_t>(i % 29 == 17 ? -1 : i % 31 == 23 ? experts : e));
  }
  return samples::given({rows, slots}, std::move(ids));
}

struct ExpertCase {
  DType x, w;
  std::int64_t rows, slots, experts, n, k;
  bool per_slot;  ///< x has a row for each slot
  std::string name() const {
    return fmt::format("{}_{}_{}x{}of{}x{}x{}{}", rlx::name(x), rlx::name(w), rows, slots, experts,
                       n, k, per_slot ? "_per_slot" : "");
  }
  SampleOperand rows_operand() const {
    return per_slot ? normal({rows, slots, k}, x) : normal({rows, k}, x);
  }
  SampleOperand weights() const { return normal({experts, n, k}, w, expert_scale(k)); }
};

// Each storage type with each activation format, rows and widths dealt in turn.
std::vector<ExpertCase> expert_cases() {
  constexpr std::int64_t kRows[] = {1, 3, 17, 40, 2}, kExperts[] = {2, 5, 3}, kSlots[] = {2, 1, 3};
  std::vector<ExpertCase> list;
  std::size_t turn = 0;
  for (const DType w : samples::weight_dtypes()) {
    std::vector<DType> xs = {DType::f32};
    if (is_quantized(w)) xs.push_back(DType::xq8);
    if (w == DType::bf16) xs.push_back(DType::bf16);
    for (const DType x : xs)
      for (int i = 0; i < 2; ++i, ++turn)
        list.push_back({x, w, samples::deal(kRows, turn), samples::deal(kSlots, turn),
                        samples::deal(kExperts, turn), samples::deal(samples::kWidths, turn),
                        samples::deal_row_length(w, turn), turn % 2 == 1});
  }
  // More rows of one expert than the kernels take at a time.
  list.push_back({DType::f32, DType::f32, 130, 2, 2, 17, 24, false});
  list.push_back({DType::xq8, DType::q8_0, 130, 2, 2, 33, 64, true});
  return list;
}

}  // namespace

std::vector<Sample> ExpertLinear::samples() {
  std::vector<Sample> list;
  for (const ExpertCase& c : expert_cases()) {
    const bool bias = list.size() % 3 == 2;
    std::vector<SampleOperand> in = {c.rows_operand(),
                                           expert_ids(c.rows, c.slots, c.experts), c.weights()};
    if (bias) in.push_back(normal({c.experts, c.n}));
    list.push_back(make_sample(c.name() + (bias ? "_bias" : ""), ExpertLinear{.bias = bias},
                               std::move(in), c.k));
  }
  return list;
}

std::vector<Sample> ExpertGatedLinear::samples() {
  constexpr Act kActs[] = {Act::silu, Act::gelu_tanh, Act::gelu, Act::relu, Act::none};
  std::vector<Sample> list;
  for (const ExpertCase& c : expert_cases())
    list.push_back(make_sample(
        fmt::format("{}_{}", c.name(), kActNames[static_cast<std::size_t>(kActs[list.size() % 5])]),
        ExpertGatedLinear{.act = kActs[list.size() % 5]},
        {c.rows_operand(), expert_ids(c.rows, c.slots, c.experts), c.weights(), c.weights()}, c.k));
  return list;
}

std::vector<Sample> ExpertSum::samples() {
  std::vector<Sample> list;
  for (std::size_t i = 0; i < 7; ++i) {
    constexpr std::int64_t kSlots[] = {1, 2, 8, 3};
    const std::int64_t rows = samples::kRows[i], slots = samples::deal(kSlots, i),
                       n = samples::deal(samples::kWidths, i);
    list.push_back(make_sample(fmt::format("{}x{}x{}", rows, slots, n), ExpertSum{},
                               {normal({rows, slots, n}), normal({rows, slots})}, slots));
  }
  return list;
}

std::vector<Sample> MoeMlp::samples() {
  const MoeMlp forms[] = {
      {},
      {.k = 1, .normalize = true},
      {.act = Act::gelu_tanh, .k = 3, .scoring = Scoring::softmax_selected},
      {.scoring = Scoring::sigmoid, .normalize = true, .bias = true, .factor = 2.5f, .groups = 2},
      {.k = 2, .factor = 0.5f, .groups = 4, .group_limit = 2, .group_top = 1}};
  constexpr std::int64_t kHidden = 32, kInner = 24, kCount = 8;
  std::vector<Sample> list;
  for (const MoeMlp& form : forms) {
    const std::int64_t rows = samples::kRows[list.size()];
    std::vector<SampleOperand> in = {
        normal({rows, kHidden}), normal({kCount, kHidden}, DType::f32, expert_scale(kHidden)),
        normal({kCount, kInner, kHidden}, DType::f32, expert_scale(kHidden)),
        normal({kCount, kInner, kHidden}, DType::f32, expert_scale(kHidden)),
        normal({kCount, kHidden, kInner}, DType::f32, expert_scale(kInner))};
    if (form.bias) in.push_back(normal({kCount}, DType::f32, 0.1f));
    list.push_back(make_sample(fmt::format("form_{}", list.size()), form, std::move(in), kHidden));
  }
  return list;
}

}  // namespace rlx
