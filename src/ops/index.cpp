#include "ops/index.h"

#include <cstring>

#include "ops/access.h"
#include "ops/checks.h"
#include "ops/samples.h"

namespace rlx {

void Embedding::infer(InferContext& c) const {
  checks::operand_count(c, 2);
  checks::weight(c, 0);
  if (c.in(0).layout != Layout::plain)
    c.fail("table: expected the plain layout, found {}", c.in(0).text());
  checks::plain(c, 1, DType::i32, 1);
  c.out(Shape({c.in(1).dim(0), c.in(0).dim(1)}, DType::f32));
}

void Embedding::reference(const KernelArgs& a) const {
  const TensorView &table = a.in[0], &tokens = a.in[1], &y = a.out[0];
  std::vector<double> row(static_cast<std::size_t>(access::columns(table)));
  const auto part = access::part_of(a, tokens.dims[0]);
  for (std::int64_t r = part.begin; r < part.end; ++r) {
    access::load_row(table, access::load_index(tokens, r, table.dims[0], "embedding: tokens"),
                     row.data());
    for (double& v : row) v *= double{scale};
    access::store_row(y, r, row.data());
  }
}

void SelectRows::infer(InferContext& c) const {
  checks::operand_count(c, 2);
  c.dtype(0, {DType::f32, DType::xq8});
  checks::plain(c, 0, c.in(0).dtype, 2);
  checks::plain(c, 1, DType::i32, 1);
  c.out(c.in(0).with_dim(0, c.in(1).dim(0)));
}

void SelectRows::reference(const KernelArgs& a) const {
  const TensorView &x = a.in[0], &index = a.in[1], &y = a.out[0];
  const auto bytes = static_cast<std::size_t>(row_bytes(x.dtype, access::columns(x)));
  const auto part = access::part_of(a, index.dims[0]);
  for (std::int64_t i = part.begin; i < part.end; ++i) {
    const std::int64_t from = access::load_index(index, i, x.dims[0], "select_rows: index");
    std::memcpy(access::row_pointer(y, i), access::row_pointer(x, from), bytes);
  }
}

using samples::given;
using samples::normal;

std::vector<Sample> Embedding::samples() {
  std::vector<Sample> list;
  std::size_t turn = 0;
  constexpr float kScales[] = {1.0f, 24.0f, 0.125f};
  for (const DType d : samples::weight_dtypes())
    for (int i = 0; i < 2; ++i, ++turn) {
      const std::int64_t n = samples::deal_row_length(d, turn),
                         rows = samples::deal(samples::kRows, turn), vocab = 40;
      std::vector<std::int32_t> tokens;
      for (std::int32_t r = 0; r < rows; ++r)
        tokens.push_back((39 - 7 * r % 40 + 40) % 40);  // the last id first, repeats
      const float factor = kScales[turn % 3];
      list.push_back(make_sample(fmt::format("{}_{}x{}_scale_{}", rlx::name(d), rows, n, factor),
                                 Embedding{.scale = factor},
                                 {normal({vocab, n}, d), given(std::move(tokens))}));
    }
  return list;
}

std::vector<Sample> SelectRows::samples() {
  const std::vector<std::vector<std::int32_t>> picks = {
      {0}, {4}, {4, 0}, {2, 2, 2}, {0, 1, 2, 3, 4}, {}};
  std::vector<Sample> list;
  for (const DType d : {DType::f32, DType::xq8})
    for (const auto& pick : picks) {
      const std::int64_t n = d == DType::f32 ? samples::deal(samples::kWidths, list.size()) : 96;
      list.push_back(make_sample(fmt::format("{}_{}_of_5x{}_from_{}", rlx::name(d), pick.size(), n,
                                             pick.empty() ? 0 : pick[0]),
                                 SelectRows{}, {normal({5, n}, d), given(pick)}));
    }
  return list;
}

}  // namespace rlx
