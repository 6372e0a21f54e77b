#include "ops/select.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "ops/access.h"
#include "ops/checks.h"
#include "ops/samples.h"

namespace rlx {

void Gather::infer(InferContext& c) const {
  checks::operand_count(c, 2);
  checks::array(c, 0);
  checks::array(c, 1, {DType::i32});
  const Shape &x = c.in(0), &index = c.in(1);
  const int at = checks::axis(c, 0, axis);
  std::vector<Dim> dims(x.dims().begin(), x.dims().end());
  dims.erase(dims.begin() + at);
  dims.insert(dims.begin() + at, index.dims().begin(), index.dims().end());
  if (dims.size() > kMaxRank)
    c.fail("x {} and index {} give {} dims: expected at most {}", checks::dims_text(x),
           checks::dims_text(index), dims.size(), kMaxRank);
  c.out(Shape(dims, x.dtype));
}

void Gather::reference(const KernelArgs& a) const {
  const TensorView &x = a.in[0], &index = a.in[1], &y = a.out[0];
  const auto lines = access::lines_of(x, axis);
  const auto bytes = static_cast<std::size_t>(info(x.dtype).block_bytes);
  const std::int64_t picks = access::row_count(index) * access::columns(index);
  const auto part = access::part_of(a, lines.outer * picks);
  for (std::int64_t i = part.begin; i < part.end; ++i) {
    const std::int64_t from = access::load_index(index, i % picks, lines.length, "gather: index");
    for (std::int64_t k = 0; k < lines.inner; ++k)
      std::memcpy(access::element(y, i * lines.inner + k),
                  access::element(x, (i / picks * lines.length + from) * lines.inner + k), bytes);
  }
}

void ScatterAdd::infer(InferContext& c) const {
  checks::operand_count(c, 3);
  checks::array(c, 0, {DType::f32, DType::f16, DType::bf16, DType::i32});
  const Shape& x = c.in(0);
  checks::plain(c, 1, DType::i32, 1);
  checks::plain(c, 2, x.dtype, x.rank());
  const int at = checks::axis(c, 0, axis);
  const Shape expected = x.with_dim(at, c.in(1).dim(0));
  for (int i = 0; i < x.rank(); ++i)
    checks::same(c, c.in(2).dim(i), expected.dim(i), [&] {
      return fmt::format("updates {}: expected {} for index {} in axis {} of x {}",
                         checks::dims_text(c.in(2)), checks::dims_text(expected),
                         checks::dims_text(c.in(1)), axis, checks::dims_text(x));
    });
  c.out(x);
}

void ScatterAdd::reference(const KernelArgs& a) const {
  const TensorView &x = a.in[0], &index = a.in[1], &updates = a.in[2];
  const auto lines = access::lines_of(x, axis), from = access::lines_of(updates, axis);
  std::vector<double> values(static_cast<std::size_t>(lines.length));
  std::vector<std::size_t> places;
  for (std::int64_t i = 0; i < from.length; ++i)
    places.push_back(
        static_cast<std::size_t>(access::load_index(index, i, lines.length, "scatter_add: index")));
  const auto part = access::part_of(a, lines.count());
  for (std::int64_t line = part.begin; line < part.end; ++line) {
    for (std::int64_t k = 0; k < lines.length; ++k)
      values[static_cast<std::size_t>(k)] = access::load_at(x, lines.at(line, k));
    for (std::size_t i = 0; i < places.size(); ++i) {
      double& v = values[places[i]];
      const double update = access::load_at(updates, from.at(line, static_cast<std::int64_t>(i)));
      v = replace ? update : v + update;
    }
    for (std::int64_t k = 0; k < lines.length; ++k)
      access::store_at(a.out[0], lines.at(line, k), values[static_cast<std::size_t>(k)]);
  }
}

namespace {

// NaN is above everything and equal to itself, so that the order is total.
bool ordered_before(double x, double y) {
  if (std::isnan(x) || std::isnan(y)) return !std::isnan(x) && std::isnan(y);
  return x < y;
}

// Writes the first values of each line of x in order, and their indices.
void write_ordered(const KernelArgs& a, int axis, bool descending) {
  const TensorView& x = a.in[0];
  const auto lines = access::lines_of(x, axis), to = access::lines_of(a.out[0], axis);
  std::vector<double> values(static_cast<std::size_t>(lines.length));
  std::vector<std::int64_t> order(values.size());
  const auto value = [&](std::int64_t k) { return values[static_cast<std::size_t>(k)]; };
  const auto part = access::part_of(a, lines.count());
  for (std::int64_t line = part.begin; line < part.end; ++line) {
    for (std::int64_t k = 0; k < lines.length; ++k)
      values[static_cast<std::size_t>(k)] = access::load_at(x, lines.at(line, k));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
      return descending ? ordered_before(value(j), value(i)) : ordered_before(value(i), value(j));
    });
    for (std::int64_t k = 0; k < to.length; ++k) {
      const std::int64_t from = order[static_cast<std::size_t>(k)];
      access::store_at(a.out[0], to.at(line, k), value(from));
      access::store_at(a.out[1], to.at(line, k), static_cast<double>(from));
    }
  }
}

}  // namespace

void TopK::infer(InferContext& c) const {
  checks::operand_count(c, 1);
  checks::array(c, 0, {DType::f32, DType::f16, DType::bf16, DType::i32});
  checks::attribute(c, "k", k, 0, INT32_MAX);
  const Shape& x = c.in(0);
  const int at = checks::axis(c, 0, axis);
  checks::at_most(c, k, x.dim(at), [&] {
    return fmt::format("k: expected at most the {} values of axis {} of x {}, found {}",
                       x.dim(at).text(), axis, checks::dims_text(x), k);
  });
  c.out(x.with_dim(at, k));
  c.out(x.with_dim(at, k).with(DType::i32));
}

void TopK::reference(const KernelArgs& a) const { write_ordered(a, axis, largest); }

void Sort::infer(InferContext& c) const {
  checks::operand_count(c, 1);
  checks::array(c, 0, {DType::f32, DType::f16, DType::bf16, DType::i32});
  checks::axis(c, 0, axis);
  c.out(c.in(0));
  c.out(c.in(0).with(DType::i32));
}

void Sort::reference(const KernelArgs& a) const { write_ordered(a, axis, descending); }

void TakeAlongAxis::infer(InferContext& c) const {
  checks::operand_count(c, 2);
  checks::array(c, 0);
  checks::array(c, 1, {DType::i32});
  const Shape &x = c.in(0), &index = c.in(1);
  const int at = checks::axis(c, 0, axis);
  if (index.rank() != x.rank())
    c.fail("index: expected the rank of x {}, found {}", checks::dims_text(x), index.text());
  for (int i = 0; i < x.rank(); ++i)
    if (i != at)
      checks::same(c, index.dim(i), x.dim(i), [&] {
        return fmt::format("x {} and index {} must agree but in axis {}: {} and {} differ",
                           checks::dims_text(x), checks::dims_text(index), axis, x.dim(i).text(),
                           index.dim(i).text());
      });
  c.out(index.with(x.dtype));
}

void TakeAlongAxis::reference(const KernelArgs& a) const {
  const TensorView &x = a.in[0], &index = a.in[1];
  const auto from = access::lines_of(x, axis), to = access::lines_of(index, axis);
  const auto bytes = static_cast<std::size_t>(info(x.dtype).block_bytes);
  const auto part = access::part_of(a, to.count());
  for (std::int64_t line = part.begin; line < part.end; ++line)
    for (std::int64_t k = 0; k < to.length; ++k) {
      const std::int64_t i =
          access::load_index(index, to.at(line, k), from.length, "take_along_axis: index");
      std::memcpy(access::element(a.out[0], to.at(line, k)), access::element(x, from.at(line, i)),
                  bytes);
    }
}

void OneHot::infer(InferContext& c) const {
  checks::operand_count(c, 1);
  checks::array(c, 0, {DType::i32});
  const Shape& index = c.in(0);
  if (index.rank() >= kMaxRank)
    c.fail("index: expected at most {} dims, found {}", kMaxRank - 1, index.text());
  if (const auto known = depth.constant(); known && *known < 0)
    c.fail("depth: expected a value of at least 0, found {}", *known);
  std::vector<Dim> dims(index.dims().begin(), index.dims().end());
  dims.push_back(depth);
  c.out(Shape(dims, DType::f32));
}

void OneHot::reference(const KernelArgs& a) const {
  const TensorView& y = a.out[0];
  const std::int64_t n = access::columns(y);
  const auto part = access::part_of(a, access::row_count(y));
  for (std::int64_t r = part.begin; r < part.end; ++r) {
    const std::int64_t hot = access::load_int(a.in[0], r);
    for (std::int64_t j = 0; j < n; ++j) access::store(y, r, j, j == hot ? 1.0 : 0.0);
  }
}

using samples::given;
using samples::integers;
using samples::normal;

std::vector<Sample> Gather::samples() {
  std::vector<Sample> list;
  const auto add = [&](std::string_view name, int at, SampleOperand x, SampleOperand index) {
    list.push_back(make_sample(std::string(name), Gather{at}, {std::move(x), std::move(index)}));
  };
  add("rows", 0, normal({5, 33}), given({4, 0, 2, 2}));
  add("columns", -1, normal({5, 33}), given({32, 0, 7}));
  add("middle", 1, normal({3, 4, 5}), given({3, 3, 0, 1, 2}));
  add("vector", 0, normal({9}), given({8, 1}));
  add("matrix_of_indices", 0, normal({17, 16}), given({2, 3}, {16, 0, 5, 5, 1, 16}));
  add("scalar_index", 1, normal({5, 7}), given({}, {6}));
  add("no_indices", 0, normal({5, 7}), given({0}, {}));
  add("one_row", 0, normal({1, 48}), given({0, 0, 0}));
  add("rank_6", 1, normal({2, 3, 1, 2, 2}), given({2, 2}, {2, 0, 1, 2}));
  for (const DType d : {DType::f16, DType::bf16, DType::i32, DType::i64, DType::boolean})
    add(rlx::name(d), 0, integers({5, 7}, 9.0f, d), given({4, 1}));
  return list;
}

std::vector<Sample> ScatterAdd::samples() {
  std::vector<Sample> list;
  const auto add = [&](std::string_view name, int at, SampleOperand x,
                       std::vector<std::int32_t> index) {
    const auto m = static_cast<std::int64_t>(index.size());
    SampleOperand updates = x;
    updates.shape = x.shape.with_dim(at, m);
    for (const bool put : {false, true})
      list.push_back(make_sample(fmt::format("{}{}", name, put ? "_replace" : ""),
                                 ScatterAdd{at, put}, {x, given(index), updates}, m + 1));
  };
  add("rows", 0, normal({5, 33}), {4, 0, 2});
  add("repeats", 0, normal({5, 17}), {2, 2, 2, 0, 2});
  add("columns", -1, normal({5, 33}), {32, 0, 7, 0});
  add("middle", 1, normal({3, 4, 5}), {3, 1});
  add("vector", 0, normal({9}), {8, 1, 8});
  add("no_indices", 0, normal({5, 7}), {});
  add("rank_4", 2, normal({2, 1, 3, 5}), {0, 2});
  for (const DType d : {DType::f16, DType::bf16, DType::i32})
    add(rlx::name(d), 0, integers({5, 7}, 9.0f, d), {4, 1, 4});
  return list;
}

std::vector<Sample> TopK::samples() {
  std::vector<Sample> list;
  const auto add = [&](std::string_view name, TopK op, SampleOperand x) {
    list.push_back(make_sample(std::string(name), op, {std::move(x)}));
  };
  add("router", {.k = 8}, normal({17, 64}));
  add("one", {.k = 1}, normal({5, 100}));
  add("all", {.k = 33}, normal({3, 33}));
  add("smallest", {.k = 4, .largest = false}, normal({5, 48}));
  add("first_axis", {.k = 3, .axis = 0}, normal({65, 17}));
  add("middle", {.k = 2, .axis = 1, .largest = false}, normal({3, 4, 5}));
  add("ties", {.k = 7}, integers({5, 33}, 3));
  add("vector", {.k = 4, .axis = 0}, normal({9}));
  add("none", {.k = 0}, normal({5, 7}));
  add("sampler", {.k = 40}, normal({1, 2048}));
  for (const DType d : {DType::f16, DType::bf16, DType::i32})
    add(rlx::name(d), {.k = 3}, integers({5, 17}, 100.0f, d));
  return list;
}

std::vector<Sample> Sort::samples() {
  std::vector<Sample> list;
  for (const bool descending : {false, true}) {
    const auto add = [&](std::string_view name, int at, SampleOperand x) {
      list.push_back(make_sample(fmt::format("{}{}", name, descending ? "_descending" : ""),
                                 Sort{at, descending}, {std::move(x)}));
    };
    add("rows", -1, normal({5, 33}));
    add("columns", 0, normal({65, 17}));
    add("middle", 1, normal({3, 4, 5}));
    add("ties", -1, integers({5, 48}, 4));
    add("vector", 0, normal({100}));
    add("one_value", -1, normal({5, 1}));
    add("no_values", 0, normal({0, 7}));
    for (const DType d : {DType::f16, DType::bf16, DType::i32})
      add(rlx::name(d), -1, integers({5, 17}, 100.0f, d));
  }
  return list;
}

std::vector<Sample> TakeAlongAxis::samples() {
  std::vector<Sample> list;
  const auto add = [&](std::string_view name, int at, SampleOperand x, SampleOperand index) {
    list.push_back(
        make_sample(std::string(name), TakeAlongAxis{at}, {std::move(x), std::move(index)}));
  };
  add("rows", -1, normal({2, 33}), given({2, 3}, {4, 0, 32, 2, 2, 1}));
  add("columns", 0, normal({5, 2}), given({3, 2}, {4, 0, 1, 1, 0, 2}));
  add("middle", 1, normal({2, 4, 1}), given({2, 2, 1}, {3, 0, 1, 1}));
  add("vector", 0, normal({9}), given({8, 1}));
  add("no_indices", -1, normal({5, 7}), given({5, 0}, {}));
  for (const DType d : {DType::f16, DType::bf16, DType::i32, DType::boolean})
    add(rlx::name(d), -1, integers({1, 7}, 9.0f, d), given({1, 3}, {4, 1, 6}));
  return list;
}

std::vector<Sample> OneHot::samples() {
  std::vector<Sample> list;
  const auto add = [&](std::string_view name, Dim n, SampleOperand index) {
    list.push_back(make_sample(std::string(name), OneHot{n}, {std::move(index)}));
  };
  add("groups", 4, given({3, 2}, {0, 3, 1, 2, 2, 0}));
  add("vector", 17, given({16, 0, 5}));
  add("scalar", 3, given({}, {2}));
  add("outside", 5, given({-1, 4, 5, 2147483647}));
  add("depth_one", 1, given({0, 1, 0}));
  add("no_indices", 7, given({0}, {}));
  return list;
}

}  // namespace rlx
