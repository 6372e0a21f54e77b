#include "ops/head_lanes.h"

#include "base/error.h"
#include "ops/shape_ops.h"

namespace rlx {

Value lanes_of_heads(Builder& b, Value x, std::int64_t heads, std::int64_t first, std::int64_t n) {
  const Dim rows = b.shape(x).dim(0);
  const auto columns = b.shape(x).dim(-1).constant();
  RLX_CHECK(columns && *columns % heads == 0, b.shape(x).text());
  const Value split = b(Reshape{.dims = {rows, Dim(heads), Dim(*columns / heads)}}, x);
  const Value part = b(Slice{.axis = 2, .start = first, .stop = first + n}, split);
  return b(Reshape{.dims = {rows, Dim(heads * n)}}, part);
}

}  // namespace rlx
