#include "ops/norm.h"

#include <cmath>

#include "ir/graph.h"
#include "ops/access.h"
#include "ops/checks.h"
#include "ops/quant.h"
#include "ops/samples.h"

namespace rlx {

void RmsNorm::infer(InferContext& c) const {
  checks::operand_count(c, 2);
  checks::attribute(c, "eps", double{eps}, 0, checks::kNoLimit);
  checks::attribute(c, "group", group, 0, INT32_MAX);
  c.dtype(0, {DType::f32});
  if (c.in(0).rank() < 1) c.fail("x: expected at least one dim, found {}", c.in(0).text());
  checks::plain(c, 0, DType::f32, c.in(0).rank());
  if (group == 0) {
    checks::plain(c, 1, DType::f32, 1);
    checks::same(c, c.in(0).dim(-1), c.in(1).dim(0), [&] {
      return fmt::format("x has {} columns but weight {} expects {}", c.in(0).dim(-1).text(),
                         checks::dims_text(c.in(1)), c.in(1).dim(0).text());
    });
  } else {
    checks::vector(c, 1, DType::f32, group, "group");
    checks::multiple(c, 0, group, "groups");
  }
  c.out(c.in(0));
}

void RmsNorm::reference(const KernelArgs& a) const {
  const TensorView &x = a.in[0], &y = a.out[0];
  const std::int64_t n = access::columns(x), size = group == 0 ? n : group;
  const std::vector<double> weight = access::load_rows(a.in[1], 0, 1);
  std::vector<double> row(static_cast<std::size_t>(n));
  const auto part = access::part_of(a, access::row_count(x));
  for (std::int64_t r = part.begin; r < part.end; ++r) {
    access::load_row(x, r, row.data());
    for (std::int64_t start = 0; start < n; start += size) {
      double* values = row.data() + start;
      double squares = 0;
      for (std::int64_t i = 0; i < size; ++i) squares += values[i] * values[i];
      const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(size) + double{eps});
      for (std::int64_t i = 0; i < size; ++i)
        values[i] *= inverse * (weight[static_cast<std::size_t>(i)] + double{weight_offset});
    }
    access::store_row(y, r, row.data());
  }
}

void RmsNormQuantize::infer(InferContext& c) const {
  checks::operand_count(c, 2);
  checks::attribute(c, "eps", double{eps}, 0, checks::kNoLimit);
  checks::plain(c, 0, DType::f32, 2);
  checks::multiple(c, 0, 32, "int8 groups");
  checks::vector(c, 1, DType::f32, c.in(0).dim(1), "the columns of x");
  c.out(c.in(0).with(DType::xq8));
}

void RmsNormQuantize::decompose(Body& b) const {
  const Value y = b.b(RmsNorm{.eps = eps, .weight_offset = weight_offset}, b.in(0), b.in(1));
  b.ret({b.b(QuantizeRows{}, y)});
}

using samples::normal;

std::vector<Sample> RmsNorm::samples() {
  std::vector<Sample> list;
  constexpr std::int64_t kColumns[] = {7, 64, 100, 576, 2048, 17, 1};
  for (std::size_t i = 0; i < 7; ++i) {
    const std::int64_t rows = samples::kRows[i], n = kColumns[i];
    list.push_back(make_sample(fmt::format("{}x{}", rows, n), RmsNorm{.eps = 1e-5f},
                               {normal({rows, n}), normal({n})}, n));
  }
  list.push_back(
      make_sample("eps_large", RmsNorm{.eps = 0.5f}, {normal({3, 96}), normal({96})}, 96));
  list.push_back(make_sample("eps_rules", RmsNorm{.eps = 1e-2f},
                             {normal({3, 96}, DType::f32, 1e-3f), normal({96})}, 96));
  list.push_back(make_sample("zeros", RmsNorm{.eps = 1e-5f},
                             {normal({2, 64}, DType::f32, 0.0f), normal({64})}, 64));
  list.push_back(
      make_sample("large", RmsNorm{}, {normal({2, 64}, DType::f32, 1e4f), normal({64})}, 64));
  list.push_back(make_sample("offset", RmsNorm{.weight_offset = 1.0f},
                             {normal({5, 640}), normal({640})}, 640));
  list.push_back(
      make_sample("group_64", RmsNorm{.group = 64}, {normal({5, 192}), normal({64})}, 64));
  list.push_back(
      make_sample("group_5", RmsNorm{.eps = 0.1f, .group = 5}, {normal({17, 35}), normal({5})}, 5));
  list.push_back(make_sample("group_256_offset", RmsNorm{.weight_offset = 1.0f, .group = 256},
                             {normal({8, 1024}), normal({256})}, 256));
  list.push_back(make_sample("rank_3", RmsNorm{}, {normal({2, 3, 33}), normal({33})}, 33));
  return list;
}

std::vector<Sample> RmsNormQuantize::samples() {
  std::vector<Sample> list;
  constexpr std::int64_t kColumns[] = {32, 96, 512, 576, 256, 2048, 640};
  for (std::size_t i = 0; i < 7; ++i) {
    const std::int64_t rows = samples::kRows[i], n = kColumns[i];
    list.push_back(make_sample(fmt::format("{}x{}", rows, n), RmsNormQuantize{.eps = 1e-5f},
                               {normal({rows, n}), normal({n})}, n));
  }
  list.push_back(
      make_sample("eps_large", RmsNormQuantize{.eps = 0.5f}, {normal({3, 96}), normal({96})}, 96));
  list.push_back(make_sample("offset", RmsNormQuantize{.weight_offset = 1.0f},
                             {normal({5, 640}), normal({640})}, 640));
  list.push_back(make_sample("zeros", RmsNormQuantize{},
                             {normal({2, 64}, DType::f32, 0.0f), normal({64})}, 64));
  return list;
}

}  // namespace rlx
