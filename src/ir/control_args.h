// What the control() of an op with sub-graphs gets: its operands, and a way to run a sub-graph.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ir/op.h"
#include "tensor/tensor.h"

namespace rlx {

struct ControlArgs {
  std::span<const Tensor> inputs;  ///< in the order of the op
  std::span<const Shape> results;  ///< of the node, bound
  /// The outputs of a sub-graph for values of its inputs, both in its order.
  std::function<std::vector<Tensor>(GraphRef, std::vector<Tensor>)> run;
};

}  // namespace rlx
