#include "ops/arithmetic.h"

#include <cmath>

#include "ops/checks.h"
#include "ops/loops.h"
#include "ops/samples.h"

namespace rlx {
namespace {

// Both operands of one dtype of the list; the broadcast shape in that dtype.
Shape infer_pair(InferContext& c, std::initializer_list<DType> dtypes) {
  checks::operand_count(c, 2);
  checks::array(c, 0, dtypes);
  checks::plain(c, 1, c.in(0).dtype, c.in(1).rank());
  return checks::broadcast(c, {c.in(0), "a"}, {c.in(1), "b"});
}

double larger(double x, double y) { return x > y || std::isnan(x) ? x : y; }
double smaller(double x, double y) { return x < y || std::isnan(x) ? x : y; }

bool holds(Relation relation, double x, double y) {
  switch (relation) {
    case Relation::eq:
      return x == y;
    case Relation::ne:
      return x != y;
    case Relation::lt:
      return x < y;
    case Relation::le:
      return x <= y;
    case Relation::gt:
      return x > y;
    case Relation::ge:
      return x >= y;
  }
  return false;
}

}  // namespace

void Sub::infer(InferContext& c) const {
  c.out(infer_pair(c, {DType::f32, DType::f16, DType::bf16, DType::i32}));
}
void Sub::reference(const KernelArgs& a) const {
  loops::binary(a, [](double x, double y) { return x - y; });
}

void Div::infer(InferContext& c) const {
  c.out(infer_pair(c, {DType::f32, DType::f16, DType::bf16}));
}
void Div::reference(const KernelArgs& a) const {
  loops::binary(a, [](double x, double y) { return x / y; });
}

void Pow::infer(InferContext& c) const {
  c.out(infer_pair(c, {DType::f32, DType::f16, DType::bf16}));
}
void Pow::reference(const KernelArgs& a) const {
  loops::binary(a, [](double x, double y) { return std::pow(x, y); });
}

void Maximum::infer(InferContext& c) const {
  c.out(infer_pair(c, {DType::f32, DType::f16, DType::bf16, DType::i32, DType::boolean}));
}
void Maximum::reference(const KernelArgs& a) const { loops::binary(a, larger); }

void Minimum::infer(InferContext& c) const {
  c.out(infer_pair(c, {DType::f32, DType::f16, DType::bf16, DType::i32, DType::boolean}));
}
void Minimum::reference(const KernelArgs& a) const { loops::binary(a, smaller); }

void Compare::infer(InferContext& c) const {
  c.out(infer_pair(c, {DType::f32, DType::f16, DType::bf16, DType::i32, DType::boolean})
            .with(DType::boolean));
}
void Compare::reference(const KernelArgs& a) const {
  loops::binary(a, [&](double x, double y) { return holds(relation, x, y) ? 1.0 : 0.0; });
}

void Where::infer(InferContext& c) const {
  checks::operand_count(c, 3);
  checks::array(c, 0, {DType::boolean, DType::i32});
  checks::array(c, 1, {DType::f32, DType::f16, DType::bf16, DType::i32, DType::boolean});
  checks::plain(c, 2, c.in(1).dtype, c.in(2).rank());
  const Shape values = checks::broadcast(c, {c.in(1), "a"}, {c.in(2), "b"});
  c.out(checks::broadcast(c, {values, "the shape of a and b"}, {c.in(0), "cond"}));
}

void Where::reference(const KernelArgs& a) const {
  const TensorView& y = a.out[0];
  std::vector<double> cond(static_cast<std::size_t>(access::columns(y))), left(cond.size()),
      right(cond.size());
  const auto part = access::part_of(a, access::row_count(y));
  for (std::int64_t r = part.begin; r < part.end; ++r) {
    access::load_broadcast(a.in[0], y, r, cond.data());
    access::load_broadcast(a.in[1], y, r, left.data());
    access::load_broadcast(a.in[2], y, r, right.data());
    for (std::size_t i = 0; i < left.size(); ++i)
      if (cond[i] == 0.0) left[i] = right[i];
    access::store_row(y, r, left.data());
  }
}

void Clamp::infer(InferContext& c) const {
  if (!(low <= high)) c.fail("low: expected at most high = {}, found {}", high, low);
  checks::operand_count(c, 1);
  checks::array(c, 0, {DType::f32, DType::f16, DType::bf16});
  c.out(c.in(0));
}
void Clamp::reference(const KernelArgs& a) const {
  loops::unary(a, [&](double x) {
    return x < double{low} ? double{low} : x > double{high} ? double{high} : x;
  });
}

double apply(UnaryFunction fn, double x) {
  switch (fn) {
    case UnaryFunction::neg:
      return -x;
    case UnaryFunction::exp:
      return std::exp(x);
    case UnaryFunction::log:
      return std::log(x);
    case UnaryFunction::sqrt:
      return std::sqrt(x);
    case UnaryFunction::rsqrt:
      return 1.0 / std::sqrt(x);
    case UnaryFunction::reciprocal:
      return 1.0 / x;
    case UnaryFunction::abs:
      return std::abs(x);
    case UnaryFunction::sin:
      return std::sin(x);
    case UnaryFunction::cos:
      return std::cos(x);
    case UnaryFunction::tanh:
      return std::tanh(x);
    case UnaryFunction::sign:
      return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x;  // NaN stays NaN
    case UnaryFunction::floor:
      return std::floor(x);
    case UnaryFunction::ceil:
      return std::ceil(x);
    case UnaryFunction::round:
      return std::nearbyint(x);  // the default rounding mode: halves to even
    case UnaryFunction::erf:
      return std::erf(x);
    case UnaryFunction::sigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case UnaryFunction::softplus:
      return std::fmax(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
  }
  return x;
}

void Unary::infer(InferContext& c) const {
  checks::operand_count(c, 1);
  checks::array(c, 0, {DType::f32, DType::f16, DType::bf16});
  c.out(c.in(0));
}
void Unary::reference(const KernelArgs& a) const {
  loops::unary(a, [&](double x) { return apply(fn, x); });
}

using samples::integers;
using samples::normal;

namespace {

// The same shapes for each op with two operands; `a` and `b` make an operand of given dims.
template <typename Op, typename MakeA, typename MakeB>
std::vector<Sample> pair_samples(const Op& op, MakeA a, MakeB b) {
  std::vector<Sample> list;
  for (std::size_t i = 0; i < 7; ++i) {
    const std::int64_t rows = samples::kRows[i], n = samples::deal(samples::kWidths, i);
    list.push_back(make_sample(fmt::format("{}x{}", rows, n), op, {a({rows, n}), b({rows, n})}));
  }
  list.push_back(make_sample("row", op, {a({5, 48}), b({48})}));
  list.push_back(make_sample("row_first", op, {a({100}), b({3, 100})}));
  list.push_back(make_sample("column", op, {a({17, 33}), b({17, 1})}));
  list.push_back(make_sample("column_first", op, {a({17, 1}), b({17, 33})}));
  list.push_back(make_sample("outer", op, {a({5, 1}), b({1, 17})}));
  list.push_back(make_sample("middle", op, {a({3, 1, 7}), b({2, 7})}));
  list.push_back(make_sample("scalars", op, {a({}), b({})}));
  list.push_back(make_sample("no_rows", op, {a({0, 5}), b({5})}));
  return list;
}

using DimsOf = std::initializer_list<Dim>;

// An operand of a dtype whose values are normal, or small integers where equal pairs must occur.
auto normals(DType dtype = DType::f32, float scale = 1.0f) {
  return [=](DimsOf dims) { return normal(dims, dtype, scale); };
}
auto small_integers(DType dtype = DType::f32, float limit = 3.0f) {
  return [=](DimsOf dims) { return integers(dims, limit, dtype); };
}

template <typename Op>
void add_dtypes(std::vector<Sample>& list, const Op& op, std::initializer_list<DType> dtypes) {
  for (const DType d : dtypes)
    list.push_back(make_sample(std::string(rlx::name(d)), op,
                               {integers({3, 17}, 5.0f, d), integers({3, 17}, 5.0f, d)}));
}

}  // namespace

std::vector<Sample> Sub::samples() {
  auto list = pair_samples(Sub{}, normals(), normals());
  add_dtypes(list, Sub{}, {DType::f16, DType::bf16, DType::i32});
  list.push_back(make_sample("cancels", Sub{}, {integers({4, 33}, 2), integers({33}, 2)}));
  list.push_back(make_sample(
      "large", Sub{}, {normal({2, 40}, DType::f32, 1e30f), normal({2, 40}, DType::f32, 1e-30f)}));
  return list;
}

std::vector<Sample> Div::samples() {
  auto list = pair_samples(Div{}, normals(), normals());
  list.push_back(make_sample("by_zero", Div{}, {normal({4, 33}), integers({33}, 2)}));
  list.push_back(
      make_sample("f16", Div{}, {normal({3, 17}, DType::f16), normal({17}, DType::f16)}));
  list.push_back(
      make_sample("bf16", Div{}, {normal({3, 17}, DType::bf16), normal({17}, DType::bf16)}));
  list.push_back(make_sample(
      "subnormal", Div{}, {normal({2, 40}, DType::f32, 1e-30f), normal({40}, DType::f32, 1e9f)}));
  return list;
}

std::vector<Sample> Pow::samples() {
  auto list = pair_samples(Pow{}, small_integers(DType::f32, 9.0f), normals(DType::f32, 2.0f));
  list.push_back(make_sample("integer_power", Pow{}, {normal({4, 33}), integers({33}, 6)}));
  list.push_back(
      make_sample("overflow", Pow{}, {integers({4, 33}, 50), normal({33}, DType::f32, 40.0f)}));
  list.push_back(
      make_sample("f16", Pow{}, {integers({3, 17}, 4, DType::f16), normal({17}, DType::f16)}));
  list.push_back(
      make_sample("bf16", Pow{}, {integers({3, 17}, 4, DType::bf16), normal({17}, DType::bf16)}));
  return list;
}

std::vector<Sample> Maximum::samples() {
  auto list = pair_samples(Maximum{}, normals(), normals());
  add_dtypes(list, Maximum{}, {DType::f16, DType::bf16, DType::i32, DType::boolean});
  return list;
}

std::vector<Sample> Minimum::samples() {
  auto list = pair_samples(Minimum{}, normals(), normals());
  add_dtypes(list, Minimum{}, {DType::f16, DType::bf16, DType::i32, DType::boolean});
  return list;
}

std::vector<Sample> Compare::samples() {
  auto list = pair_samples(Compare{.relation = Relation::le}, small_integers(), small_integers());
  for (std::size_t i = 0; i < kRelationNames.size(); ++i)
    for (const DType d : {DType::f32, DType::f16, DType::bf16, DType::i32, DType::boolean})
      list.push_back(make_sample(
          fmt::format("{}_{}", kRelationNames[i], rlx::name(d)),
          Compare{.relation = static_cast<Relation>(i)},
          {integers({5, samples::deal(samples::kWidths, i) + 16}, 3, d), integers({5, 1}, 3, d)}));
  // One value against itself of another operand: not always true, but not always zero either.
  for (Sample& s : list)
    if (s.name == "scalars") s.operands = {normal({}, DType::f32, 0.0f), integers({}, 1)};
  return list;
}

std::vector<Sample> Where::samples() {
  const auto mask = [](DimsOf dims, DType dtype = DType::boolean) {
    return integers(dims, 2, dtype);
  };
  std::vector<Sample> list;
  for (std::size_t i = 0; i < 7; ++i) {
    const std::int64_t rows = samples::kRows[i], n = samples::deal(samples::kWidths, i);
    list.push_back(make_sample(fmt::format("{}x{}", rows, n), Where{},
                               {mask({rows, n}), normal({rows, n}), normal({rows, n})}));
  }
  list.push_back(make_sample("i32_cond", Where{},
                             {integers({5, 17}, 3, DType::i32), normal({5, 17}), normal({5, 17})}));
  list.push_back(make_sample("row_cond", Where{}, {mask({17}), normal({5, 17}), normal({5, 1})}));
  list.push_back(make_sample("wide_cond", Where{}, {mask({2, 5, 17}), normal({}), normal({17})}));
  list.push_back(make_sample("outer", Where{}, {mask({2, 1, 1}), normal({5, 1}), normal({7})}));
  for (const DType d : {DType::f16, DType::bf16, DType::i32, DType::boolean})
    list.push_back(make_sample(std::string(rlx::name(d)), Where{},
                               {mask({3, 17}), integers({3, 17}, 9, d), integers({17}, 9, d)}));
  return list;
}

std::vector<Sample> Clamp::samples() {
  std::vector<Sample> list;
  std::size_t turn = 0;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const Clamp& op : {Clamp{}, Clamp{-1.0f, 1.0f}, Clamp{0.25f, kInf}, Clamp{-kInf, -0.5f},
                          Clamp{0.75f, 0.75f}, Clamp{0.0f, 6.0f}})
    for (const DType d : {DType::f32, DType::f16, DType::bf16}) {
      const std::int64_t rows = samples::deal(samples::kRows, turn),
                         n = samples::deal(samples::kWidths, turn) + 16;
      ++turn;
      list.push_back(
          make_sample(fmt::format("{}_{}_{}_{}x{}", rlx::name(d), op.low, op.high, rows, n), op,
                      {normal({rows, n}, d, 3.0f)}));
    }
  list.push_back(make_sample("rank_3", Clamp{-0.5f, 0.5f}, {normal({2, 3, 5})}));
  return list;
}

std::vector<Sample> Unary::samples() {
  std::vector<Sample> list;
  std::size_t turn = 0;
  for (std::size_t i = 0; i < kUnaryNames.size(); ++i) {
    const auto fn = static_cast<UnaryFunction>(i);
    const bool positive =
        fn == UnaryFunction::log || fn == UnaryFunction::sqrt || fn == UnaryFunction::rsqrt;
    for (const float scale : {3.0f, 60.0f, 1e5f}) {
      const std::int64_t rows = samples::deal(samples::kRows, turn),
                         n = samples::deal(samples::kWidths, turn) + 16;
      // f16 overflows at 1e5, so that infinities are operands too; of these sin and cos are NaN.
      const bool periodic = fn == UnaryFunction::sin || fn == UnaryFunction::cos;
      const DType d = scale == 3.0f || periodic ? DType::f32
                      : turn % 2 == 0           ? DType::f16
                                                : DType::bf16;
      ++turn;
      list.push_back(make_sample(
          fmt::format("{}_{}_{}x{}_scale_{}", kUnaryNames[i], rlx::name(d), rows, n, scale),
          Unary{.fn = fn},
          {positive ? integers({rows, n}, scale, d) : normal({rows, n}, d, scale)}));
    }
  }
  list.push_back(make_sample("rank_4", Unary{.fn = UnaryFunction::round},
                             {normal({2, 1, 3, 5}, DType::f32, 9.0f)}));
  list.push_back(make_sample("zeros", Unary{.fn = UnaryFunction::reciprocal},
                             {normal({2, 5}, DType::f32, 0.0f)}));
  return list;
}

}  // namespace rlx
