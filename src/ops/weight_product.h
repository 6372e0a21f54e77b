// The product with a stored weight from its other side: what the backward pass of Linear needs.
#pragma once

#include "ir/graph.h"
#include "ir/op.h"

namespace rlx {

/// A weight as it was before Pack, which is what products from the other side read; for gradients.
Value stored_weight(GradContext& c, Value w);

/// y = x w.   x: f32[..., n]; w: [n, k] of any storage type, plain; y: f32[..., k]. Sums run in increasing n, one
/// chain per result. With w the weight of a Linear and x the gradient of its result, y is the gradient of the
/// Linear's x. Kernels decode w block by block: no decoded copy of it exists.
struct LinearTransposed {
  static constexpr std::string_view name = "linear_transposed";
  static constexpr Trait traits = Trait::compute | Trait::row_wise;
  static constexpr std::array<std::string_view, 2> operands = {"x", "w"};
  static constexpr auto fields(auto...) { return std::tuple{}; }
  bool operator==(const LinearTransposed&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

using WeightProductOps = OpList<LinearTransposed>;

}  // namespace rlx
