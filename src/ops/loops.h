// The loops of element-wise references: rows of the result, in double.
#pragma once

#include <vector>

#include "ops/access.h"

namespace rlx::loops {

/// y = f(x) for each element.
template <typename F>
void unary(const KernelArgs& a, F f) {
  const TensorView& y = a.out[0];
  std::vector<double> values(static_cast<std::size_t>(access::columns(y)));
  const auto part = access::part_of(a, access::row_count(y));
  for (std::int64_t r = part.begin; r < part.end; ++r) {
    access::load_row(a.in[0], r, values.data());
    for (double& v : values) v = f(v);
    access::store_row(y, r, values.data());
  }
}

/// y = f(a, b) for each element of the broadcast shape.
template <typename F>
void binary(const KernelArgs& a, F f) {
  const TensorView& y = a.out[0];
  std::vector<double> left(static_cast<std::size_t>(access::columns(y))), right(left.size());
  const auto part = access::part_of(a, access::row_count(y));
  for (std::int64_t r = part.begin; r < part.end; ++r) {
    access::load_broadcast(a.in[0], y, r, left.data());
    access::load_broadcast(a.in[1], y, r, right.data());
    for (std::size_t i = 0; i < left.size(); ++i) left[i] = f(left[i], right[i]);
    access::store_row(y, r, left.data());
  }
}

}  // namespace rlx::loops
