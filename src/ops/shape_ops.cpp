#include "ops/shape_ops.h"

#include <cmath>
#include <cstring>

#include "ops/access.h"
#include "ops/checks.h"
#include "ops/samples.h"

namespace rlx {
namespace {

// The size that -1 stands for: total / known.
Dim infer_open_size(InferContext& c, Dim total, Dim known, const DimList& dims) {
  const auto message = [&] {
    return fmt::format("x {} has {} values, which do not fill dims {}", checks::dims_text(c.in(0)),
                       total.text(), dims.text());
  };
  if (known == Dim(0)) c.fail("dims: -1 stands for no single size in {}", dims.text());
  if (const auto exact = total.divided_by(known)) return *exact;
  const auto divisor = known.constant();
  if (!divisor)
    c.fail("dims: the size for -1 in {} is not known: {} is no multiple of {}", dims.text(),
           total.text(), known.text());
  const Dim size = ceil_div(total, *divisor);
  checks::same(c, size * known, total, message);
  return size;
}

}  // namespace

void Reshape::infer(InferContext& c) const {
  checks::operand_count(c, 1);
  checks::array(c, 0);
  const Dim total = c.in(0).elements();
  Dim known(1);
  std::array<Dim, kMaxRank> sizes;
  int open = -1;
  for (int i = 0; i < dims.size(); ++i) {
    sizes[static_cast<std::size_t>(i)] = dims[i];
    const auto size = dims[i].constant();
    if (size && *size < -1) c.fail("dims: expected sizes of at least 0, or -1, found {}", *size);
    if (size && *size == -1) {
      if (open >= 0) c.fail("dims: expected at most one -1, found {}", dims.text());
      open = i;
    } else {
      known = known * dims[i];
    }
  }
  if (open >= 0)
    sizes[static_cast<std::size_t>(open)] = infer_open_size(c, total, known, dims);
  else
    checks::same(c, total, known, [&] {
      return fmt::format("x {} has {} values but dims {} have {}", checks::dims_text(c.in(0)),
                         total.text(), dims.text(), known.text());
    });
  c.out(Shape(std::span<const Dim>(sizes.data(), static_cast<std::size_t>(dims.size())),
              c.in(0).dtype));
}

void Reshape::reference(const KernelArgs& a) const {
  const TensorView &x = a.in[0], &y = a.out[0];
  const auto bytes = static_cast<std::size_t>(info(y.dtype).block_bytes);
  const std::int64_t n = access::columns(y);
  const auto part = access::part_of(a, access::row_count(y));
  for (std::int64_t i = part.begin * n; i < part.end * n; ++i)
    std::memcpy(access::element(y, i), access::element(x, i), bytes);
}

Reshape expand_dims(const Shape& x, int axis) {
  const int at = axis < 0 ? axis + x.rank() + 1 : axis;
  if (at < 0 || at > x.rank())
    fail(ErrorCode::shape, "expand_dims: axis: expected a value from {} to {} for {}, found {}",
         -x.rank() - 1, x.rank(), x.text(), axis);
  std::vector<Dim> dims(x.dims().begin(), x.dims().end());
  dims.insert(dims.begin() + at, Dim(1));
  return {DimList(dims)};
}

Reshape squeeze(const Shape& x, int axis) {
  const int at = axis < 0 ? axis + x.rank() : axis;
  if (at < 0 || at >= x.rank())
    fail(ErrorCode::shape, "squeeze: axis: expected a value from {} to {} for {}, found {}",
         -x.rank(), x.rank() - 1, x.text(), axis);
  if (!(x.dim(at) == Dim(1)))
    fail(ErrorCode::shape, "squeeze: axis {} of {}: expected a size of 1, found {}", axis, x.text(),
         x.dim(at).text());
  std::vector<Dim> dims(x.dims().begin(), x.dims().end());
  dims.erase(dims.begin() + at);
  return {DimList(dims)};
}

namespace {

// x's axis for each axis of the result.
std::array<int, kMaxRank> permutation(const Axes& axes, int rank) {
  std::array<int, kMaxRank> places{};
  for (int i = 0; i < rank; ++i)
    places[static_cast<std::size_t>(i)] =
        axes.size() == 0 ? rank - 1 - i : access::axis_of(axes[i], rank);
  return places;
}

}  // namespace

void Transpose::infer(InferContext& c) const {
  checks::operand_count(c, 1);
  checks::array(c, 0);
  const Shape& x = c.in(0);
  std::array<bool, kMaxRank> seen{};
  bool good = axes.size() == 0 || axes.size() == x.rank();
  for (int i = 0; good && i < axes.size(); ++i) {
    const int at = access::axis_of(axes[i], x.rank());
    good = at >= 0 && at < x.rank() && !seen[static_cast<std::size_t>(at)];
    if (good) seen[static_cast<std::size_t>(at)] = true;
  }
  if (!good)
    c.fail("axes: expected a permutation of the {} axes of x {}, found {}", x.rank(),
           checks::dims_text(x), print_value(axes));
  const auto places = permutation(axes, x.rank());
  Shape y = x;
  for (int i = 0; i < x.rank(); ++i) y = y.with_dim(i, x.dim(places[static_cast<std::size_t>(i)]));
  c.out(y);
}

void Transpose::reference(const KernelArgs& a) const {
  const int rank = a.in[0].rank;
  const auto places = permutation(axes, rank);
  access::copy_rows(a, access::permuted(a.in[0], places.data(), rank), a.out[0]);
}

void Slice::infer(InferContext& c) const {
  checks::operand_count(c, 1);
  checks::array(c, 0);
  checks::attribute(c, "step", step, 1, INT32_MAX);
  const int at = checks::axis(c, 0, axis);
  const Dim size = c.in(0).dim(at);
  if (!(start == Dim(0) && stop == size)) {  // a size is never negative: nothing to check
    const auto message = [&] {
      return fmt::format("start {} and stop {} are outside axis {} of x {}", start.text(),
                         stop.text(), axis, checks::dims_text(c.in(0)));
    };
    checks::at_most(c, 0, start, message);
    checks::at_most(c, stop, size, message);
    checks::at_most(c, start, stop, [&] {
      return fmt::format("start: expected at most stop = {}, found {}", stop.text(), start.text());
    });
  }
  c.out(c.in(0).with_dim(at, ceil_div(stop - start, step)));
}

void Slice::reference(const KernelArgs& a) const {
  TensorView x = a.in[0];
  const int at = access::axis_of(axis, x.rank);
  x.data = static_cast<std::byte*>(x.data) + start.evaluate({}) * x.strides[at];
  x.strides[at] *= step;
  x.dims[at] = a.out[0].dims[at];
  access::copy_rows(a, x, a.out[0]);
}

void Concat::infer(InferContext& c) const {
  const Shape& first = c.in(0);  // fails when there is no operand
  checks::array(c, {0, "operand 0"});
  const int at = checks::axis(c, {0, "operand 0"}, axis);
  Dim size = first.dim(at);
  for (int i = 1; i < c.arity(); ++i) {
    const Shape& x = c.in(i);
    if (x.dtype != first.dtype || x.rank() != first.rank() || x.is_state() ||
        x.layout != Layout::plain)
      c.fail("operand {}: expected {} of rank {} as operand 0, found {}", i, rlx::name(first.dtype),
             first.rank(), x.text());
    for (int k = 0; k < first.rank(); ++k)
      if (k != at)
        checks::same(c, first.dim(k), x.dim(k), [&] {
          return fmt::format("operand 0 {} and operand {} {} differ in axis {}",
                             checks::dims_text(first), i, checks::dims_text(x), k);
        });
    size = size + x.dim(at);
  }
  c.out(first.with_dim(at, size));
}

void Concat::reference(const KernelArgs& a) const {
  TensorView part = a.out[0];
  const int at = access::axis_of(axis, part.rank);
  for (int i = 0; i < a.inputs; ++i) {
    part.dims[at] = a.in[i].dims[at];
    access::copy_rows(a, a.in[i], part);
    part.data = static_cast<std::byte*>(part.data) + part.dims[at] * part.strides[at];
  }
}

void Pad::infer(InferContext& c) const {
  checks::operand_count(c, 1);
  checks::array(c, 0, {DType::f32, DType::f16, DType::bf16, DType::i32, DType::boolean});
  if (!is_float(c.in(0).dtype) && !(std::abs(value) < 0x1p31f && value == std::floor(value)))
    c.fail("value: expected an integer for {}, found {}", rlx::name(c.in(0).dtype), value);
  const int at = checks::axis(c, 0, axis);
  const std::pair<std::string_view, Dim> sides[] = {{"before", before}, {"after", after}};
  for (const auto& side : sides)
    checks::at_most(c, 0, side.second, [&] {
      return fmt::format("{}: expected a size of at least 0, found {}", side.first,
                         side.second.text());
    });
  c.out(c.in(0).with_dim(at, c.in(0).dim(at) + before + after));
}

void Pad::reference(const KernelArgs& a) const {
  const TensorView &x = a.in[0], &y = a.out[0];
  const auto from = access::lines_of(x, axis), to = access::lines_of(y, axis);
  const std::int64_t shift = before.evaluate({}), n = access::columns(y);
  const auto part = access::part_of(a, access::row_count(y));
  for (std::int64_t i = part.begin * n; i < part.end * n; ++i) {
    const std::int64_t line = i / (to.length * to.inner) * to.inner + i % to.inner,
                       k = i / to.inner % to.length - shift;
    const bool inside = k >= 0 && k < from.length;
    access::store_at(y, i, inside ? access::load_at(x, from.at(line, k)) : double{value});
  }
}

void BroadcastTo::infer(InferContext& c) const {
  checks::operand_count(c, 1);
  checks::array(c, 0);
  const Shape& x = c.in(0);
  const auto message = [&] {
    return fmt::format("x {} does not broadcast to dims {}", checks::dims_text(x), dims.text());
  };
  if (x.rank() > dims.size()) c.fail_text(message());
  for (int i = 0; i < dims.size(); ++i)
    checks::at_most(c, 0, dims[i], [&] {
      return fmt::format("dims: expected sizes of at least 0, found {}", dims.text());
    });
  for (int i = 0; i < x.rank(); ++i)
    if (!(x.dim(i) == Dim(1))) checks::same(c, x.dim(i), dims[dims.size() - x.rank() + i], message);
  c.out(Shape(dims.dims(), x.dtype));
}

void BroadcastTo::reference(const KernelArgs& a) const {
  access::copy_rows(a, access::broadcast(a.in[0], a.out[0]), a.out[0]);
}

using samples::given;
using samples::integers;
using samples::normal;

namespace {

constexpr DType kMovedDtypes[] = {DType::f16, DType::bf16, DType::f64,    DType::i8,
                                  DType::i32, DType::i64,  DType::boolean};

// One sample for each dtype that is not f32.
template <typename Op>
void add_moved_dtypes(std::vector<Sample>& list, const Op& op, std::initializer_list<Dim> dims) {
  for (const DType d : kMovedDtypes)
    list.push_back(make_sample(std::string(rlx::name(d)), op, {integers(dims, 5.0f, d)}));
}

}  // namespace

std::vector<Sample> Reshape::samples() {
  std::vector<Sample> list;
  const auto add = [&](std::string_view name, DimList to, std::initializer_list<Dim> from) {
    list.push_back(make_sample(std::string(name), Reshape{to}, {normal(from)}));
  };
  add("flatten", {-1}, {3, 4, 5});
  add("split", {5, 4, -1}, {5, 48});
  add("join", {15, 16}, {3, 5, 16});
  add("heads", {-1, 3, 16}, {17, 48});
  add("same", {5, 7}, {5, 7});
  add("scalar", {}, {1, 1});
  add("of_scalar", {1, 1, 1}, {});
  add("rank_6", {2, 1, 3, 1, 2, 2}, {6, 4});
  add("over_rows", {10, 3}, {6, 5});
  add("open_over_rows", {-1, 10}, {6, 5});
  add("no_values", {4, 0}, {0, 7});
  add_moved_dtypes(list, Reshape{{3, 8}}, {6, 4});
  return list;
}

std::vector<Sample> Transpose::samples() {
  std::vector<Sample> list;
  const auto add = [&](std::string_view name, Axes order, std::initializer_list<Dim> from) {
    list.push_back(make_sample(std::string(name), Transpose{order}, {normal(from)}));
  };
  add("matrix", {}, {17, 33});
  add("matrix_by_axes", {1, 0}, {65, 48});
  add("heads", {1, 0, 2}, {17, 3, 16});
  add("cycle", {2, 0, 1}, {3, 4, 5});
  add("from_end", {0, -1, -2}, {2, 5, 7});
  add("same", {0, 1}, {5, 7});
  add("vector", {0}, {9});
  add("scalar", {}, {});
  add("rank_6", {5, 3, 1, 0, 2, 4}, {2, 3, 1, 2, 3, 2});
  add("no_rows", {1, 0}, {0, 5});
  add_moved_dtypes(list, Transpose{{1, 0}}, {3, 7});
  return list;
}

std::vector<Sample> Slice::samples() {
  std::vector<Sample> list;
  const auto add = [&](std::string_view name, Slice op, std::initializer_list<Dim> from) {
    list.push_back(make_sample(std::string(name), op, {normal(from)}));
  };
  add("columns", {.axis = 1, .start = 3, .stop = 20}, {5, 33});
  add("rows", {.axis = 0, .start = 1, .stop = 4}, {5, 33});
  add("last_axis", {.axis = -1, .start = 16, .stop = 48}, {17, 48});
  add("middle", {.axis = 1, .start = 2, .stop = 3}, {3, 4, 5});
  add("whole", {.axis = 0, .start = 0, .stop = 65}, {65, 3});
  add("empty", {.axis = 0, .start = 5, .stop = 5}, {5, 7});
  add("step_2", {.axis = 1, .start = 0, .stop = 33, .step = 2}, {5, 33});
  add("step_3_rows", {.axis = 0, .start = 1, .stop = 17, .step = 3}, {17, 5});
  add("step_over_all", {.axis = -1, .start = 4, .stop = 9, .step = 100}, {2, 9});
  add("vector", {.axis = 0, .start = 1, .stop = 2}, {9});
  add_moved_dtypes(list, Slice{.axis = 1, .start = 1, .stop = 7, .step = 2}, {3, 7});
  return list;
}

std::vector<Sample> Concat::samples() {
  std::vector<Sample> list;
  list.push_back(make_sample("columns", Concat{1}, {normal({5, 16}), normal({5, 17})}));
  list.push_back(make_sample("rows", Concat{0}, {normal({2, 33}), normal({65, 33})}));
  list.push_back(
      make_sample("three", Concat{-1}, {normal({3, 5}), normal({3, 1}), normal({3, 15})}));
  list.push_back(make_sample("middle", Concat{1}, {normal({2, 3, 4}), normal({2, 1, 4})}));
  list.push_back(make_sample("one", Concat{0}, {normal({5, 7})}));
  list.push_back(
      make_sample("with_empty", Concat{0}, {normal({0, 7}), normal({3, 7}), normal({0, 7})}));
  list.push_back(make_sample("vectors", Concat{0}, {given({3, 1}), given({4, 1, 5})}));
  list.push_back(make_sample("many", Concat{0}, std::vector<SampleOperand>(24, normal({1, 3}))));
  for (const DType d : kMovedDtypes)
    list.push_back(make_sample(std::string(rlx::name(d)), Concat{-2},
                               {integers({3, 7}, 5.0f, d), integers({2, 7}, 5.0f, d)}));
  return list;
}

std::vector<Sample> Pad::samples() {
  std::vector<Sample> list;
  const auto add = [&](std::string_view name, Pad op, std::initializer_list<Dim> from,
                       DType dtype = DType::f32) {
    list.push_back(make_sample(std::string(name), op, {integers(from, 9.0f, dtype)}));
  };
  add("rows_after", {.axis = 0, .after = 3}, {5, 33});
  add("columns_before", {.axis = 1, .before = 2, .value = -1.5f}, {5, 33});
  add("both", {.axis = -1, .before = 15, .after = 17, .value = 1e30f}, {17, 16});
  add("middle", {.axis = 1, .before = 1, .after = 2, .value = 2.0f}, {3, 4, 5});
  add("nothing", {.axis = 0}, {5, 7});
  add("of_nothing", {.axis = 0, .before = 2, .value = 7.0f}, {0, 7});
  add("vector", {.axis = 0, .before = 1, .after = 1}, {9});
  add("infinite", {.axis = 1, .after = 2, .value = -std::numeric_limits<float>::infinity()},
      {2, 5});
  for (const DType d : {DType::f16, DType::bf16, DType::i32, DType::boolean})
    add(rlx::name(d), {.axis = 1, .before = 1, .after = 2, .value = 1.0f}, {3, 7}, d);
  return list;
}

std::vector<Sample> BroadcastTo::samples() {
  std::vector<Sample> list;
  const auto add = [&](std::string_view name, DimList to, std::initializer_list<Dim> from) {
    list.push_back(make_sample(std::string(name), BroadcastTo{to}, {normal(from)}));
  };
  add("row", {5, 33}, {33});
  add("column", {17, 48}, {17, 1});
  add("middle", {3, 4, 5}, {3, 1, 5});
  add("both", {5, 17}, {1, 1});
  add("scalar", {2, 3}, {});
  add("same", {5, 7}, {5, 7});
  add("heads", {65, 2, 3, 16}, {65, 2, 1, 16});
  add("rank_6", {2, 1, 3, 1, 2, 2}, {3, 1, 1, 2});
  add("to_nothing", {0, 7}, {1, 7});
  add_moved_dtypes(list, BroadcastTo{{2, 3, 7}}, {3, 1});
  return list;
}

}  // namespace rlx
