// What an op moves and computes at given sizes: an estimate from shapes alone, for reports (rlx inspect, rlx trace).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/program.h"
#include "ir/graph.h"

namespace rlx {

/// `weight_bytes` is part of `bytes`. `ops`: two per multiply-add of a product, else one per element.
struct OpCost {
  double bytes = 0, weight_bytes = 0, ops = 0;
  OpCost& operator+=(const OpCost& o);
};

struct CostOperand {
  Shape shape;
  bool param = false;  ///< a weight, or one made from weights alone
};

/// Products read every weight once and compute 2 operations per weight and row; of experts, a row takes one matrix, and
/// no more are read than rows took. A convolution computes 2 operations per result and weight of its filter. An op that
/// is no product (embedding) reads no more of a weight than it gives. Attention over a cache reads `context` tokens of
/// it: keys and values, 4 operations per token and value of its result. Errors as view_bytes.
OpCost op_cost(const OpDef& def, std::span<const CostOperand> in, std::span<const Shape> out, const DimBinding& sizes,
               std::int64_t context);

/// Of every node; sources, views and what is made from weights alone (packed once, at load) cost nothing.
std::vector<OpCost> node_costs(const Graph& graph, const DimBinding& sizes, std::int64_t context);
OpCost call_cost(const Program& program, std::size_t call, const DimBinding& sizes, std::int64_t context);

/// Per node: whether it is a param or made from params alone.
std::vector<bool> made_at_load(const Graph& graph);

}  // namespace rlx
