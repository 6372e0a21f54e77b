#include "ops/weight_product.h"

#include <cmath>

#include "ops/access.h"
#include "ops/checks.h"
#include "ops/samples.h"

namespace rlx {

void LinearTransposed::infer(InferContext& c) const {
  checks::operand_count(c, 2);
  if (c.in(0).rank() < 1) c.fail("x: expected at least one dim, found {}", c.in(0).text());
  checks::plain(c, 0, DType::f32, c.in(0).rank());
  checks::weight(c, 1);
  if (c.in(1).layout != Layout::plain) c.fail("w: expected the plain layout, found {}", c.in(1).text());
  checks::same(c, c.in(0).dim(-1), c.in(1).dim(0), [&] {
    return fmt::format("x has {} columns but w {} has {} rows", c.in(0).dim(-1).text(),
                       checks::dims_text(c.in(1)), c.in(1).dim(0).text());
  });
  c.out(c.in(0).with_dim(-1, c.in(1).dim(1)));
}

void LinearTransposed::reference(const KernelArgs& a) const {
  const TensorView &x = a.in[0], &w = a.in[1], &y = a.out[0];
  const std::int64_t n = access::columns(x), k = access::columns(y);
  const auto part = access::part_of(a, access::row_count(x));
  const std::vector<double> xs = access::load_rows(x, part.begin, part.end);
  std::vector<double> row(static_cast<std::size_t>(k)), sums(static_cast<std::size_t>((part.end - part.begin) * k));
  for (std::int64_t j = 0; j < n; ++j) {
    access::load_row(w, j, row.data());
    for (std::int64_t r = 0; r < part.end - part.begin; ++r) {
      const double factor = xs[static_cast<std::size_t>(r * n + j)];
      double* sum = sums.data() + r * k;
      for (std::int64_t i = 0; i < k; ++i) sum[i] += factor * row[static_cast<std::size_t>(i)];
    }
  }
  for (std::int64_t r = part.begin; r < part.end; ++r) access::store_row(y, r, sums.data() + (r - part.begin) * k);
}

std::vector<Sample> LinearTransposed::samples() {
  using samples::normal;
  std::vector<Sample> list;
  std::size_t turn = 0;
  for (const DType w : samples::weight_dtypes()) {
    const std::int64_t k = samples::deal_row_length(w, turn), n = samples::deal(samples::kWidths, turn + 1) + 32,
                       rows = samples::deal(samples::kRows, turn);
    ++turn;
    list.push_back(make_sample(fmt::format("{}_{}x{}x{}", rlx::name(w), rows, n, k), LinearTransposed{},
                               {normal({rows, n}), normal({n, k}, w, 1.0f / std::sqrt(static_cast<float>(n)))}, n));
  }
  list.push_back(make_sample("rank_3", LinearTransposed{}, {normal({2, 3, 40}), normal({40, 17})}, 40));
  list.push_back(make_sample("vector", LinearTransposed{}, {normal({40}), normal({40, 33})}, 40));
  return list;
}

}  // namespace rlx
