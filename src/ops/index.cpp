#include "ops/index.h"

#include <cstring>

#include "ops/access.h"
#include "ops/checks.h"

namespace rlx {

void Embedding::infer(InferContext& c) const {
  checks::operand_count(c, 2);
  checks::weight(c, 0);
  if (c.in(0).layout != Layout::plain) c.fail("table: expected the plain layout, found {}", c.in(0).text());
  checks::plain(c, 1, DType::i32, 1);
  c.out(Shape({c.in(1).dim(0), c.in(0).dim(1)}, DType::f32));
}

void Embedding::reference(const KernelArgs& a) const {
  const TensorView &table = a.in[0], &tokens = a.in[1], &y = a.out[0];
  std::vector<double> row(static_cast<std::size_t>(access::columns(table)));
  const auto part = access::part_of(a, tokens.dims[0]);
  for (std::int64_t r = part.begin; r < part.end; ++r) {
    access::load_row(table, access::load_index(tokens, r, table.dims[0], "embedding: tokens"), row.data());
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

}  // namespace rlx
