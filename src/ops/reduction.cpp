#include "ops/reduction.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/access.h"
#include "ops/checks.h"
#include "ops/samples.h"

namespace rlx {
namespace {

// x's shape without an axis, or with 1 there.
Shape without_axis(const Shape& x, int at, bool keep) {
  if (keep) return x.with_dim(at, 1);
  std::vector<Dim> dims(x.dims().begin(), x.dims().end());
  dims.erase(dims.begin() + at);
  return Shape(dims, x.dtype);
}

void check_some_values(InferContext& c, int at, std::string_view what) {
  if (c.in(0).dim(at) == Dim(0))
    c.fail("axis: {} of no values in axis {} of x {}", what, at, checks::dims_text(c.in(0)));
}

void check_kind_of_i32(InferContext& c, Reduction kind) {
  if (c.in(0).dtype == DType::i32 && (kind == Reduction::mean || kind == Reduction::prod))
    c.fail("kind: expected sum, max or min for i32, found {}",
           kReductionNames[static_cast<std::size_t>(kind)]);
}

double start_value(Reduction kind) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (kind == Reduction::max) return -kInf;
  if (kind == Reduction::min) return kInf;
  return kind == Reduction::prod ? 1.0 : 0.0;
}

double combine(Reduction kind, double total, double x) {
  switch (kind) {
    case Reduction::sum:
    case Reduction::mean:
      return total + x;
    case Reduction::max:
      return x > total || std::isnan(x) ? x : total;  // once NaN, nothing is larger
    case Reduction::min:
      return x < total || std::isnan(x) ? x : total;
    case Reduction::prod:
      return total * x;
  }
  return total;
}

// Sums of i32 stay inside 2^53, where double is exact.
double wrapped(DType dtype, Reduction kind, double total) {
  return dtype == DType::i32 && kind == Reduction::sum ? access::wrap_i32(total) : total;
}

// Calls f(line, values) for this worker's lines of x along an axis.
template <typename F>
void for_each_line(const KernelArgs& a, int axis, F f) {
  const TensorView& x = a.in[0];
  const auto lines = access::lines_of(x, axis);
  std::vector<double> values(static_cast<std::size_t>(lines.length));
  const auto part = access::part_of(a, lines.count());
  for (std::int64_t line = part.begin; line < part.end; ++line) {
    for (std::int64_t k = 0; k < lines.length; ++k)
      values[static_cast<std::size_t>(k)] = access::load_at(x, lines.at(line, k));
    f(line, values);
  }
}

// The same, where f changes the values into the line of the result.
template <typename F>
void transform_lines(const KernelArgs& a, int axis, F f) {
  const auto lines = access::lines_of(a.out[0], axis);
  for_each_line(a, axis, [&](std::int64_t line, std::vector<double>& values) {
    f(values);
    for (std::int64_t k = 0; k < lines.length; ++k)
      access::store_at(a.out[0], lines.at(line, k), values[static_cast<std::size_t>(k)]);
  });
}

double largest(const std::vector<double>& values) {
  double top = start_value(Reduction::max);
  for (double v : values) top = combine(Reduction::max, top, v);
  return top;
}

void infer_softmax(InferContext& c, int axis) {
  checks::operand_count(c, 1);
  checks::array(c, 0, {DType::f32, DType::f16, DType::bf16});
  checks::axis(c, 0, axis);
  c.out(c.in(0));
}

}  // namespace

void Reduce::infer(InferContext& c) const {
  checks::operand_count(c, 1);
  checks::array(c, 0, {DType::f32, DType::f16, DType::bf16, DType::i32});
  check_kind_of_i32(c, kind);
  const int at = checks::axis(c, 0, axis);
  if (kind == Reduction::mean || kind == Reduction::max || kind == Reduction::min)
    check_some_values(c, at, kReductionNames[static_cast<std::size_t>(kind)]);
  c.out(without_axis(c.in(0), at, keep_dims));
}

void Reduce::reference(const KernelArgs& a) const {
  for_each_line(a, axis, [&](std::int64_t line, const std::vector<double>& values) {
    double total = start_value(kind);
    for (double v : values) total = wrapped(a.in[0].dtype, kind, combine(kind, total, v));
    if (kind == Reduction::mean) total /= static_cast<double>(values.size());
    access::store_at(a.out[0], line, total);
  });
}

void Cumulative::infer(InferContext& c) const {
  if (kind == Reduction::mean) c.fail("kind: expected sum, max, min or prod, found mean");
  checks::operand_count(c, 1);
  checks::array(c, 0, {DType::f32, DType::f16, DType::bf16, DType::i32});
  check_kind_of_i32(c, kind);
  checks::axis(c, 0, axis);
  c.out(c.in(0));
}

void Cumulative::reference(const KernelArgs& a) const {
  transform_lines(a, axis, [&](std::vector<double>& values) {
    if (reverse) std::reverse(values.begin(), values.end());
    double total = start_value(kind);
    for (double& v : values) {
      const double before = total;
      total = wrapped(a.in[0].dtype, kind, combine(kind, total, v));
      v = exclusive ? before : total;
    }
    if (reverse) std::reverse(values.begin(), values.end());
  });
}

void Softmax::infer(InferContext& c) const { infer_softmax(c, axis); }
void Softmax::reference(const KernelArgs& a) const {
  transform_lines(a, axis, [](std::vector<double>& values) {
    const double top = largest(values);
    double sum = 0;
    for (double& v : values) sum += v = std::exp(v - top);
    for (double& v : values) v /= sum;
  });
}

void LogSoftmax::infer(InferContext& c) const { infer_softmax(c, axis); }
void LogSoftmax::reference(const KernelArgs& a) const {
  transform_lines(a, axis, [](std::vector<double>& values) {
    const double top = largest(values);
    double sum = 0;
    for (double v : values) sum += std::exp(v - top);
    for (double& v : values) v = v - top - std::log(sum);
  });
}

void Argmax::infer(InferContext& c) const {
  checks::operand_count(c, 1);
  checks::array(c, 0, {DType::f32, DType::f16, DType::bf16, DType::i32});
  const int at = checks::axis(c, 0, axis);
  check_some_values(c, at, "argmax");
  c.out(without_axis(c.in(0), at, keep_dims).with(DType::i32));
}

void Argmax::reference(const KernelArgs& a) const {
  for_each_line(a, axis, [&](std::int64_t line, const std::vector<double>& values) {
    std::size_t best = 0;
    for (std::size_t k = 1; k < values.size() && !std::isnan(values[best]); ++k)
      if (values[k] > values[best] || std::isnan(values[k])) best = k;
    access::store_at(a.out[0], line, static_cast<double>(best));
  });
}

void LayerNorm::infer(InferContext& c) const {
  checks::operand_count(c, 2 + bias, bias ? "x, weight, bias" : "x, weight");
  checks::attribute(c, "eps", double{eps}, 0, checks::kNoLimit);
  checks::array(c, 0, {DType::f32});
  checks::axis(c, 0, -1);
  for (int i = 1; i < c.arity(); ++i)
    checks::vector(c, i, DType::f32, c.in(0).dim(-1), "the columns of x");
  c.out(c.in(0));
}

void LayerNorm::reference(const KernelArgs& a) const {
  const TensorView& y = a.out[0];
  const std::vector<double> weight = access::load_rows(a.in[1], 0, 1),
                            shift = bias ? access::load_rows(a.in[2], 0, 1)
                                         : std::vector<double>(weight.size(), 0.0);
  std::vector<double> row(weight.size());
  const double n = static_cast<double>(row.size());
  const auto part = access::part_of(a, access::row_count(y));
  for (std::int64_t r = part.begin; r < part.end; ++r) {
    access::load_row(a.in[0], r, row.data());
    double sum = 0, squares = 0;
    for (double v : row) sum += v;
    for (double v : row) squares += (v - sum / n) * (v - sum / n);
    const double factor = 1.0 / std::sqrt(squares / n + double{eps});
    for (std::size_t i = 0; i < row.size(); ++i)
      row[i] = (row[i] - sum / n) * factor * weight[i] + shift[i];
    access::store_row(y, r, row.data());
  }
}

using samples::integers;
using samples::normal;

namespace {

constexpr std::int64_t kLineLengths[] = {1, 7, 64, 100, 576, 17, 2048};

// Lines of many lengths along each axis, for an op with an axis.
template <typename Op>
std::vector<Sample> line_samples(Op op) {
  std::vector<Sample> list;
  for (std::size_t i = 0; i < 7; ++i) {
    const std::int64_t rows = samples::kRows[i], n = kLineLengths[i];
    list.push_back(make_sample(fmt::format("{}x{}", rows, n), op, {normal({rows, n})}, n));
  }
  op.axis = 0;
  list.push_back(make_sample("first_axis", op, {normal({65, 33})}, 65));
  list.push_back(make_sample("vector", op, {normal({100})}, 100));
  op.axis = 1;
  list.push_back(make_sample("middle_axis", op, {normal({3, 17, 5})}, 17));
  op.axis = -4;
  list.push_back(make_sample("rank_4", op, {normal({9, 2, 1, 3})}, 9));
  op.axis = 1;
  list.push_back(make_sample("no_rows", op, {normal({0, 7})}, 7));
  for (const DType d : {DType::f16, DType::bf16})
    list.push_back(make_sample(std::string(rlx::name(d)), op, {normal({3, 33}, d)}, 33));
  return list;
}

}  // namespace

std::vector<Sample> Reduce::samples() {
  std::vector<Sample> list = line_samples(Reduce{});
  for (std::size_t i = 0; i < kReductionNames.size(); ++i) {
    const auto kind = static_cast<Reduction>(i);
    const std::string prefix = std::string(kReductionNames[i]) + "_";
    list.push_back(make_sample(prefix + "last", Reduce{kind, -1, false}, {normal({5, 33})}, 33));
    list.push_back(
        make_sample(prefix + "first_kept", Reduce{kind, 0, true}, {normal({17, 48})}, 17));
    list.push_back(
        make_sample(prefix + "middle_kept", Reduce{kind, -2, true}, {normal({3, 4, 5})}, 4));
    list.push_back(
        make_sample(prefix + "bf16", Reduce{kind, 1, false}, {normal({3, 17}, DType::bf16)}, 17));
    if (kind != Reduction::mean && kind != Reduction::prod)
      list.push_back(make_sample(prefix + "i32", Reduce{kind, 1, false},
                                 {integers({3, 17}, 1e9f, DType::i32)}, 17));
  }
  list.push_back(make_sample("of_no_values", Reduce{Reduction::prod, 0, false}, {normal({0, 7})}));
  list.push_back(make_sample("cancels", Reduce{Reduction::mean, -1, false},
                             {normal({3, 2048}, DType::f32, 1e4f)}, 2048));
  return list;
}

std::vector<Sample> Cumulative::samples() {
  std::vector<Sample> list = line_samples(Cumulative{});
  for (const Reduction kind : {Reduction::sum, Reduction::prod, Reduction::max, Reduction::min})
    for (const bool exclusive : {false, true})
      for (const bool reverse : {false, true}) {
        const Cumulative op{kind, static_cast<std::int32_t>(list.size() % 3) - 1, exclusive,
                            reverse};
        list.push_back(
            make_sample(fmt::format("{}{}{}", kReductionNames[static_cast<std::size_t>(kind)],
                                    exclusive ? "_exclusive" : "", reverse ? "_reverse" : ""),
                        op, {normal({5, 17})}, 17));
      }
  for (const Reduction kind : {Reduction::sum, Reduction::max, Reduction::min})
    list.push_back(
        make_sample(fmt::format("i32_{}", kReductionNames[static_cast<std::size_t>(kind)]),
                    Cumulative{kind, 1, false, false}, {integers({3, 17}, 1e9f, DType::i32)}, 17));
  return list;
}

std::vector<Sample> Softmax::samples() {
  std::vector<Sample> list = line_samples(Softmax{});
  list.push_back(make_sample("peaked", Softmax{}, {normal({5, 100}, DType::f32, 300.0f)}, 100));
  list.push_back(make_sample("large", Softmax{}, {normal({2, 64}, DType::f32, 1e30f)}, 64));
  list.push_back(make_sample("equal", Softmax{}, {normal({2, 64}, DType::f32, 0.0f)}, 64));
  return list;
}

std::vector<Sample> LogSoftmax::samples() {
  std::vector<Sample> list = line_samples(LogSoftmax{});
  for (Sample& s : list)
    if (s.name == "1x1") s.name += "_zero";  // the logarithm of 1
  list.push_back(make_sample("peaked", LogSoftmax{}, {normal({5, 100}, DType::f32, 300.0f)}, 100));
  list.push_back(make_sample("large", LogSoftmax{}, {normal({2, 64}, DType::f32, 1e30f)}, 64));
  list.push_back(make_sample("equal", LogSoftmax{}, {normal({2, 64}, DType::f32, 0.0f)}, 64));
  return list;
}

std::vector<Sample> Argmax::samples() {
  std::vector<Sample> list = line_samples(Argmax{});
  for (Sample& s : list)
    if (s.name == "1x1") s.name += "_zero";  // the only index
  list.push_back(make_sample("kept", Argmax{-1, true}, {normal({17, 48})}, 48));
  list.push_back(make_sample("first_kept", Argmax{0, true}, {normal({17, 48})}, 17));
  list.push_back(make_sample("ties", Argmax{-1, false}, {integers({17, 48}, 3)}, 48));
  list.push_back(make_sample("i32", Argmax{-1, false}, {integers({5, 33}, 100, DType::i32)}, 33));
  return list;
}

std::vector<Sample> LayerNorm::samples() {
  std::vector<Sample> list;
  for (std::size_t i = 1; i < 7; ++i) {
    const std::int64_t rows = samples::kRows[i], n = kLineLengths[i];
    list.push_back(make_sample(fmt::format("{}x{}", rows, n), LayerNorm{},
                               {normal({rows, n}), normal({n}), normal({n})}, n));
    list.push_back(make_sample(fmt::format("{}x{}_no_bias", rows, n), LayerNorm{.bias = false},
                               {normal({rows, n}), normal({n})}, n));
  }
  list.push_back(make_sample("eps_large", LayerNorm{.eps = 0.5f},
                             {normal({3, 96}), normal({96}), normal({96})}, 96));
  list.push_back(make_sample("eps_rules", LayerNorm{.eps = 1e-2f},
                             {normal({3, 96}, DType::f32, 1e-3f), normal({96}), normal({96})}, 96));
  list.push_back(
      make_sample("one_column", LayerNorm{}, {normal({5, 1}), normal({1}), normal({1})}));
  list.push_back(make_sample("large", LayerNorm{.bias = false},
                             {normal({2, 64}, DType::f32, 1e15f), normal({64})}, 64));
  list.push_back(
      make_sample("vector", LayerNorm{}, {normal({33}), normal({33}), normal({33})}, 33));
  list.push_back(
      make_sample("rank_3", LayerNorm{}, {normal({2, 3, 33}), normal({33}), normal({33})}, 33));
  return list;
}

}  // namespace rlx
