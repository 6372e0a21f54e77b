#include "ops/product.h"

#include <cmath>
#include <utility>

#include "ops/access.h"
#include "ops/checks.h"
#include "ops/samples.h"

namespace rlx {
namespace {

// Sizes of a product of matrices: `batch` times [m, k] by [k, n].
struct ProductSizes {
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
};

// y[b, i, j] = sum of a[b, i, l] * b[b, j, l], every view read in row-major order; this worker's
// lines (b, i).
void multiply(const KernelArgs& args, const TensorView& a, const TensorView& b, ProductSizes size) {
  std::vector<double> left(static_cast<std::size_t>(size.k)),
      right(static_cast<std::size_t>(size.n * size.k));
  std::int64_t loaded = -1;  // the batch place whose b is in `right`
  const auto part = access::part_of(args, size.batch * size.m);
  for (std::int64_t line = part.begin; line < part.end; ++line) {
    for (std::int64_t l = 0; l < size.k; ++l)
      left[static_cast<std::size_t>(l)] = access::load_at(a, line * size.k + l);
    if (const std::int64_t place = line / size.m; place != loaded) {
      loaded = place;
      for (std::size_t i = 0; i < right.size(); ++i)
        right[i] = access::load_at(b, place * size.n * size.k + static_cast<std::int64_t>(i));
    }
    for (std::int64_t j = 0; j < size.n; ++j) {
      const double* row = right.data() + j * size.k;
      double sum = 0;
      for (std::size_t l = 0; l < left.size(); ++l) sum += left[l] * row[l];
      access::store_at(args.out[0], line * size.n + j, sum);
    }
  }
}

void check_factor(InferContext& c, int i) {
  checks::array(c, i, {DType::f32, DType::f16, DType::bf16});
}

// x without its last two dims.
Shape batch_of(const Shape& x) {
  return Shape(x.dims().first(static_cast<std::size_t>(x.rank() - 2)), x.dtype);
}

}  // namespace

void BatchedMatmul::infer(InferContext& c) const {
  checks::operand_count(c, 2);
  for (int i : {0, 1}) {
    check_factor(c, i);
    if (c.in(i).rank() < 2)
      c.fail("{}: expected at least two dims, found {}", c.operand(i), c.in(i).text());
  }
  const Shape &a = c.in(0), &b = c.in(1);
  const Dim k = a.dim(transpose_a ? -2 : -1), other = b.dim(transpose_b ? -1 : -2);
  checks::same(c, k, other, [&] {
    return fmt::format("a {}{} has {} columns but b {}{} has {} rows", checks::dims_text(a),
                       transpose_a ? " transposed" : "", k.text(), checks::dims_text(b),
                       transpose_b ? " transposed" : "", other.text());
  });
  const Shape batch =
      checks::broadcast(c, {batch_of(a), "the batch of a"}, {batch_of(b), "the batch of b"});
  std::vector<Dim> dims(batch.dims().begin(), batch.dims().end());
  dims.push_back(a.dim(transpose_a ? -1 : -2));
  dims.push_back(b.dim(transpose_b ? -2 : -1));
  c.out(Shape(dims, DType::f32));
}

void BatchedMatmul::reference(const KernelArgs& args) const {
  const TensorView& y = args.out[0];
  const int rank = y.rank;
  TensorView a = args.in[0], b = args.in[1];
  if (transpose_a) {
    std::swap(a.dims[a.rank - 1], a.dims[a.rank - 2]);
    std::swap(a.strides[a.rank - 1], a.strides[a.rank - 2]);
  }
  if (!transpose_b) {  // the columns of b become rows
    std::swap(b.dims[b.rank - 1], b.dims[b.rank - 2]);
    std::swap(b.strides[b.rank - 1], b.strides[b.rank - 2]);
  }
  ProductSizes size{1, y.dims[rank - 2], y.dims[rank - 1], a.dims[a.rank - 1]};
  for (int i = 0; i < rank - 2; ++i) size.batch *= y.dims[i];
  // The batch dims of the result, with the matrix of the operand.
  const auto with_batch = [&](const TensorView& x) {
    TensorView to = y;
    for (int i : {1, 2}) to.dims[rank - i] = x.dims[x.rank - i];
    return access::broadcast(x, to);
  };
  multiply(args, with_batch(a), with_batch(b), size);
}

namespace {

// The axes of an operand in three groups, each counted from the start.
struct AxisGroups {
  std::vector<int> batch, free, contract;
  std::vector<int> order() const {  // batch, free, contract
    std::vector<int> all = batch;
    all.insert(all.end(), free.begin(), free.end());
    all.insert(all.end(), contract.begin(), contract.end());
    return all;
  }
};

AxisGroups group_axes(const Axes& batch, const Axes& contract, int rank) {
  AxisGroups groups;
  std::array<bool, kMaxRank> taken{};
  const auto take = [&](const Axes& axes, std::vector<int>& into) {
    for (int i = 0; i < axes.size(); ++i) {
      into.push_back(access::axis_of(axes[i], rank));
      taken[static_cast<std::size_t>(into.back())] = true;
    }
  };
  take(batch, groups.batch);
  take(contract, groups.contract);
  for (int i = 0; i < rank; ++i)
    if (!taken[static_cast<std::size_t>(i)]) groups.free.push_back(i);
  return groups;
}

// Batch and contracted axes of an operand lie inside its rank, each named once.
void check_axis_groups(InferContext& c, int i, const Axes& batch, const Axes& contract) {
  const int rank = c.in(i).rank();
  std::array<bool, kMaxRank> seen{};
  const std::pair<std::string_view, const Axes*> lists[] = {{"batch", &batch},
                                                            {"contract", &contract}};
  for (const auto& list : lists)
    for (int k = 0; k < list.second->size(); ++k) {
      const int axis = (*list.second)[k], at = access::axis_of(axis, rank);
      if (at < 0 || at >= rank)
        c.fail("{}_{}: expected axes of {} {}, found {}", c.operand(i), list.first, c.operand(i),
               checks::dims_text(c.in(i)), axis);
      if (seen[static_cast<std::size_t>(at)])
        c.fail("{}_{}: axis {} of {} is named twice", c.operand(i), list.first, axis, c.operand(i));
      seen[static_cast<std::size_t>(at)] = true;
    }
}

void check_axis_pairs(InferContext& c, const Axes& left, const Axes& right, std::string_view what) {
  if (left.size() != right.size())
    c.fail("a_{0} and b_{0}: expected as many axes, found {1} and {2}", what, left.size(),
           right.size());
  for (int i = 0; i < left.size(); ++i) {
    const Dim a = c.in(0).dim(left[i]), b = c.in(1).dim(right[i]);
    checks::same(c, a, b, [&] {
      return fmt::format("axis {} of a {} and axis {} of b {} must have one size: {} and {} differ",
                         left[i], checks::dims_text(c.in(0)), right[i], checks::dims_text(c.in(1)),
                         a.text(), b.text());
    });
  }
}

std::int64_t product_of_dims(const TensorView& v, const std::vector<int>& axes) {
  std::int64_t n = 1;
  for (int axis : axes) n *= v.dims[axis];
  return n;
}

}  // namespace

void DotGeneral::infer(InferContext& c) const {
  checks::operand_count(c, 2);
  for (int i : {0, 1}) check_factor(c, i);
  check_axis_groups(c, 0, a_batch, a_contract);
  check_axis_groups(c, 1, b_batch, b_contract);
  check_axis_pairs(c, a_batch, b_batch, "batch");
  check_axis_pairs(c, a_contract, b_contract, "contract");
  const AxisGroups a = group_axes(a_batch, a_contract, c.in(0).rank()),
                   b = group_axes(b_batch, b_contract, c.in(1).rank());
  std::vector<Dim> dims;
  for (int axis : a.batch) dims.push_back(c.in(0).dim(axis));
  for (int axis : a.free) dims.push_back(c.in(0).dim(axis));
  for (int axis : b.free) dims.push_back(c.in(1).dim(axis));
  if (dims.size() > kMaxRank)
    c.fail("a {} and b {} give {} dims: expected at most {}", checks::dims_text(c.in(0)),
           checks::dims_text(c.in(1)), dims.size(), kMaxRank);
  c.out(Shape(dims, DType::f32));
}

void DotGeneral::reference(const KernelArgs& args) const {
  const TensorView &a = args.in[0], &b = args.in[1];
  const AxisGroups of_a = group_axes(a_batch, a_contract, a.rank),
                   of_b = group_axes(b_batch, b_contract, b.rank);
  const ProductSizes size{product_of_dims(a, of_a.batch), product_of_dims(a, of_a.free),
                          product_of_dims(b, of_b.free), product_of_dims(a, of_a.contract)};
  multiply(args, access::permuted(a, of_a.order().data(), a.rank),
           access::permuted(b, of_b.order().data(), b.rank), size);
}

using samples::normal;

std::vector<Sample> BatchedMatmul::samples() {
  std::vector<Sample> list;
  constexpr std::int64_t kInner[] = {1, 7, 64, 100, 17, 33, 256};
  for (std::size_t i = 0; i < 7; ++i) {
    const std::int64_t m = samples::kRows[i], n = samples::deal(samples::kWidths, i), k = kInner[i];
    list.push_back(make_sample(fmt::format("{}x{}x{}", m, n, k), BatchedMatmul{},
                               {normal({m, k}), normal({k, n})}, k));
  }
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const BatchedMatmul op{ta, tb};
      const SampleOperand a = ta ? normal({2, 3, 16, 5}) : normal({2, 3, 5, 16}),
                          b = tb ? normal({2, 3, 17, 16}) : normal({2, 3, 16, 17});
      list.push_back(
          make_sample(fmt::format("heads{}{}", ta ? "_ta" : "", tb ? "_tb" : ""), op, {a, b}, 16));
    }
  const auto add = [&](std::string_view name, std::initializer_list<Dim> a,
                       std::initializer_list<Dim> b, DType left, DType right) {
    list.push_back(
        make_sample(std::string(name), BatchedMatmul{}, {normal(a, left), normal(b, right)}, 8));
  };
  const DType f = DType::f32;
  add("shared_b", {3, 5, 8}, {8, 7}, f, f);
  add("shared_a", {5, 8}, {3, 8, 7}, f, f);
  add("one_of_a", {1, 5, 8}, {4, 8, 7}, f, f);
  add("both_broadcast", {2, 1, 5, 8}, {3, 8, 7}, f, f);
  add("f16", {2, 5, 8}, {2, 8, 7}, DType::f16, DType::f16);
  add("bf16", {2, 5, 8}, {8, 7}, DType::bf16, DType::bf16);
  add("f32_f16", {2, 5, 8}, {2, 8, 7}, f, DType::f16);
  add("no_rows", {2, 0, 8}, {8, 7}, f, f);
  add("no_terms_zero", {2, 3, 0}, {2, 0, 7}, f, f);
  return list;
}

std::vector<Sample> DotGeneral::samples() {
  std::vector<Sample> list;
  const auto add = [&](std::string_view name, const DotGeneral& op, std::initializer_list<Dim> a,
                       std::initializer_list<Dim> b, std::int64_t k, DType dtype = DType::f32) {
    list.push_back(make_sample(std::string(name), op, {normal(a, dtype), normal(b, dtype)}, k));
  };
  add("matrix", {{1}, {0}, {}, {}}, {17, 33}, {33, 5}, 33);
  add("by_rows", {{-1}, {-1}, {}, {}}, {5, 100}, {17, 100}, 100);
  add("batched", {{2}, {1}, {0}, {0}}, {3, 5, 16}, {3, 16, 7}, 16);
  add("batch_inside", {{0}, {2}, {1}, {1}}, {16, 3, 5}, {7, 3, 16}, 16);
  add("two_batches", {{3}, {3}, {0, 1}, {1, 0}}, {2, 3, 5, 8}, {3, 2, 7, 8}, 8);
  add("two_contracted", {{0, 2}, {1, 0}, {}, {}}, {4, 5, 6}, {6, 4, 7}, 24);
  add("all_contracted", {{0, 1}, {0, 1}, {}, {}}, {5, 9}, {5, 9}, 45);
  add("outer", {}, {5, 2}, {7}, 1);
  add("rank_6", {{0}, {0}, {}, {}}, {8, 2, 3, 2}, {8, 1, 2, 3}, 8);
  add("scalars", {}, {}, {}, 1);
  add("f16", {{1}, {0}, {}, {}}, {5, 33}, {33, 7}, 33, DType::f16);
  add("bf16", {{2}, {2}, {0}, {0}}, {3, 5, 16}, {3, 7, 16}, 16, DType::bf16);
  add("no_terms_zero", {{1}, {0}, {}, {}}, {3, 0}, {0, 5}, 1);
  return list;
}

}  // namespace rlx
