// A word for blocks: part of each head's lanes.
#pragma once

#include "ir/graph.h"

namespace rlx {

/// Lanes first .. first + n - 1 of each head of x: [rows, heads * width], heads side by side:
/// [rows, heads * n].
Value lanes_of_heads(Builder& b, Value x, std::int64_t heads, std::int64_t first, std::int64_t n);

}  // namespace rlx
