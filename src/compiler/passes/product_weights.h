// Which operands of a product are its weights, for the passes that choose dtypes and layouts.
#pragma once

#include "ir/graph.h"
#include "ops/fused.h"
#include "ops/matmul.h"
#include "ops/moe.h"
#include "ops/plane_conv.h"
#include "ops/winograd_conv.h"

namespace rlx {

/// Operands first .. first + count - 1 are weights [n, k] or [experts, n, k]; x is operand 0.
struct ProductWeights {
  std::size_t first = 0, count = 0;
};

/// count = 0 for a node that is no product with weights.
inline ProductWeights product_weights(const Node& node) {
  if (node.is<Linear>() || node.is<PlaneConv>() || node.is<WinogradConv>()) return {1, 1};
  if (node.is<GatedLinear>()) return {1, 2};
  if (const auto fused = node.as<FusedLinear>()) return {1, static_cast<std::size_t>(fused->weights)};
  if (node.is<ExpertLinear>()) return {2, 1};
  if (node.is<ExpertGatedLinear>()) return {2, 2};
  return {};
}

}  // namespace rlx
