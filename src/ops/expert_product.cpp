#include "ops/expert_product.h"

#include <cmath>

#include "ops/access.h"
#include "ops/checks.h"
#include "ops/samples.h"

namespace rlx {
namespace {

// Operand i holds a row for each pair of ids (operand 1), or, where it may have rank 2, for each row.
void check_pair_rows(InferContext& c, int i) {
  const Shape &x = c.in(i), &ids = c.in(1);
  checks::plain(c, i, DType::f32, x.rank());
  for (int axis = 0; axis + 1 < x.rank(); ++axis)
    checks::same(c, x.dim(axis), ids.dim(axis), [&] {
      return fmt::format("{} {} and ids {} must agree: {} and {} differ", c.operand(i), checks::dims_text(x),
                         checks::dims_text(ids), x.dim(axis).text(), ids.dim(axis).text());
    });
}

}  // namespace

void ExpertLinearTransposed::infer(InferContext& c) const {
  checks::operand_count(c, 3);
  checks::plain(c, 0, DType::f32, 3);
  checks::plain(c, 1, DType::i32, 2);
  check_pair_rows(c, 0);
  checks::weight(c, 2, 3);
  if (c.in(2).layout != Layout::plain) c.fail("w: expected the plain layout, found {}", c.in(2).text());
  checks::same(c, c.in(0).dim(2), c.in(2).dim(1), [&] {
    return fmt::format("x has {} columns but an expert of w {} has {} rows", c.in(0).dim(2).text(),
                       checks::dims_text(c.in(2)), c.in(2).dim(1).text());
  });
  c.out(c.in(0).with_dim(2, c.in(2).dim(2)));
}

void ExpertLinearTransposed::reference(const KernelArgs& a) const {
  const TensorView &x = a.in[0], &ids = a.in[1], &w = a.in[2], &y = a.out[0];
  const std::int64_t experts = w.dims[0], n = w.dims[1], k = w.dims[2];
  const auto part = access::part_of(a, access::row_count(x));
  const std::vector<double> xs = access::load_rows(x, part.begin, part.end);
  std::vector<std::vector<std::int64_t>> chosen(static_cast<std::size_t>(experts));
  for (std::int64_t p = part.begin; p < part.end; ++p)
    if (const std::int64_t e = access::load_int(ids, p); e >= 0 && e < experts)
      chosen[static_cast<std::size_t>(e)].push_back(p - part.begin);
  std::vector<double> row(static_cast<std::size_t>(k)), sums(static_cast<std::size_t>((part.end - part.begin) * k));
  for (std::int64_t e = 0; e < experts; ++e) {
    const std::vector<std::int64_t>& mine = chosen[static_cast<std::size_t>(e)];
    if (mine.empty()) continue;
    for (std::int64_t j = 0; j < n; ++j) {
      access::load_row(w, e * n + j, row.data());
      for (const std::int64_t p : mine) {
        const double factor = xs[static_cast<std::size_t>(p * n + j)];
        for (std::int64_t i = 0; i < k; ++i)
          sums[static_cast<std::size_t>(p * k + i)] += factor * row[static_cast<std::size_t>(i)];
      }
    }
  }
  for (std::int64_t p = part.begin; p < part.end; ++p) access::store_row(y, p, sums.data() + (p - part.begin) * k);
}

void ExpertOuter::infer(InferContext& c) const {
  checks::operand_count(c, 3);
  checks::plain(c, 0, DType::f32, 3);
  checks::plain(c, 1, DType::i32, 2);
  check_pair_rows(c, 0);
  if (c.in(2).rank() != 2 && c.in(2).rank() != 3) c.fail("b: expected rank 2 or 3, found {}", c.in(2).text());
  check_pair_rows(c, 2);
  checks::at_most(c, Dim(0), experts, [&] {
    return fmt::format("experts: expected a number of at least 0, found {}", experts.text());
  });
  c.out(Shape({experts, c.in(0).dim(2), c.in(2).dim(-1)}, DType::f32));
}

void ExpertOuter::reference(const KernelArgs& args) const {
  const TensorView &a = args.in[0], &ids = args.in[1], &b = args.in[2], &y = args.out[0];
  const std::int64_t n = a.dims[2], k = access::columns(b), pairs = access::row_count(a), slots = a.dims[1];
  const auto part = access::part_of(args, y.dims[0] * n);
  std::vector<double> row(static_cast<std::size_t>(k)), sum(row.size());
  for (std::int64_t line = part.begin; line < part.end; ++line) {
    std::fill(sum.begin(), sum.end(), 0.0);
    for (std::int64_t p = 0; p < pairs; ++p) {
      if (access::load_int(ids, p) != line / n) continue;
      access::load_row(b, b.rank == 3 ? p : p / slots, row.data());
      const double factor = access::load(a, p, line % n);
      for (std::size_t i = 0; i < row.size(); ++i) sum[i] += factor * row[i];
    }
    access::store_row(y, line, sum.data());
  }
}

using samples::normal;

namespace {

// Ids that leave expert 0 without rows now and then, repeat others, and point outside.
SampleOperand pair_ids(std::int64_t rows, std::int64_t slots, std::int64_t experts) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < rows * slots; ++i)
    ids.push_back(static_cast<std::int32_t>(i % 13 == 7 ? -1 : i % 17 == 11 ? experts : (i * 5 + 1) % experts));
  return samples::given({rows, slots}, std::move(ids));
}

constexpr std::int64_t kPairRows[] = {1, 3, 17, 40, 2}, kPairExperts[] = {2, 5, 3}, kPairSlots[] = {2, 1, 3};

}  // namespace

std::vector<Sample> ExpertLinearTransposed::samples() {
  std::vector<Sample> list;
  for (const DType w : samples::weight_dtypes()) {
    const std::size_t turn = list.size();
    const std::int64_t rows = samples::deal(kPairRows, turn), slots = samples::deal(kPairSlots, turn),
                       experts = samples::deal(kPairExperts, turn), n = samples::deal(samples::kWidths, turn),
                       k = samples::deal_row_length(w, turn);
    list.push_back(make_sample(fmt::format("{}_{}x{}of{}x{}x{}", rlx::name(w), rows, slots, experts, n, k),
                               ExpertLinearTransposed{},
                               {normal({rows, slots, n}), pair_ids(rows, slots, experts),
                                normal({experts, n, k}, w, 1.0f / std::sqrt(static_cast<float>(n)))},
                               n));
  }
  return list;
}

std::vector<Sample> ExpertOuter::samples() {
  std::vector<Sample> list;
  for (std::size_t turn = 0; turn < 8; ++turn) {
    const std::int64_t rows = samples::deal(kPairRows, turn), slots = samples::deal(kPairSlots, turn),
                       experts = samples::deal(kPairExperts, turn), n = samples::deal(samples::kWidths, turn),
                       k = samples::deal(samples::kWidths, turn + 2);
    const bool per_slot = turn % 2 == 0;
    list.push_back(make_sample(
        fmt::format("{}x{}of{}x{}x{}{}", rows, slots, experts, n, k, per_slot ? "_per_slot" : ""),
        ExpertOuter{.experts = experts},
        {normal({rows, slots, n}), pair_ids(rows, slots, experts),
         per_slot ? normal({rows, slots, k}) : normal({rows, k})},
        rows * slots));
  }
  return list;
}

}  // namespace rlx
