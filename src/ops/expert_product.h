// The backward products of ExpertLinear (ops/moe.h): the chosen experts' weights from their other side, and the sums
// of outer products that belong to them. With ExpertLinear they are closed under differentiation.
#pragma once

#include "ir/op.h"

namespace rlx {

/// y[r, s] = x[r, s] w[ids[r, s]].   x: f32[rows, slots, n]; ids: i32[rows, slots]; w: [experts, n, k] of any storage
/// type, plain; y: f32[rows, slots, k]. An id outside [0, experts) gives zeros. Sums run in increasing n, one chain per
/// result. With x the gradient of an ExpertLinear's result, y is that of its x. w is decoded row by row.
struct ExpertLinearTransposed {
  static constexpr std::string_view name = "expert_linear_transposed";
  static constexpr Trait traits = Trait::compute;
  static constexpr std::array<std::string_view, 3> operands = {"x", "ids", "w"};
  static constexpr auto fields(auto...) { return std::tuple{}; }
  bool operator==(const ExpertLinearTransposed&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// y[e] = the sum over r, s with ids[r, s] = e, in rising order, of a[r, s]^T b[r, s].   a: f32[rows, slots, n]; ids:
/// i32[rows, slots]; b: f32[rows, slots, k], or f32[rows, k] (one row for all its slots); y: f32[experts, n, k]. Ids
/// outside [0, experts) are left out. With a the gradient of an ExpertLinear's result and b its x, y is that of its w.
struct ExpertOuter {
  Dim experts = 1;

  static constexpr std::string_view name = "expert_outer";
  static constexpr Trait traits = Trait::compute;
  static constexpr std::array<std::string_view, 3> operands = {"a", "ids", "b"};
  static constexpr auto fields(auto...) { return std::tuple{field("experts", &ExpertOuter::experts)}; }
  bool operator==(const ExpertOuter&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

using ExpertProductOps = OpList<ExpertLinearTransposed, ExpertOuter>;

}  // namespace rlx
