// First-order linear recurrences that give the state after every row: what the gradients of the recurrent ops
// (ops/recurrent.h) are made of. Both ops are closed under differentiation. States are rounded to f32 after each row.
#pragma once

#include "ir/op.h"

namespace rlx {

/// h[b, t] = a[b, t] * h[b, t - 1] + x[b, t], element by element, h[b, -1] = start[b] (Blelloch, "Prefix Sums and
/// Their Applications", CMU-CS-90-190, section 1.4). With `reverse` rows are taken from the last one on. a, x, h:
/// f32[batch, seq, n]; start: f32[batch, n].
struct LinearScan {
  bool reverse = false;

  static constexpr std::string_view name = "linear_scan";
  static constexpr Trait traits = Trait::compute;
  static constexpr std::array<std::string_view, 3> operands = {"a", "x", "start"};
  static constexpr auto fields(auto...) { return std::tuple{field("reverse", &LinearScan::reverse)}; }
  bool operator==(const LinearScan&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// s[b, t] = (1 - beta[b, t] k k^T) m + x[b, t] with m = decay[b, t] s[b, t - 1], k = k[b, t], s[b, -1] = start[b]: the
/// states of the gated delta rule (https://arxiv.org/abs/2412.06464) with any update x. With `reverse` rows are
/// taken from the last one on. decay, beta: f32[batch, seq]; k: f32[batch, seq, keys]; x, s: f32[batch, seq, keys,
/// values]; start: f32[batch, keys, values].
struct DeltaScan {
  bool reverse = false;

  static constexpr std::string_view name = "delta_scan";
  static constexpr Trait traits = Trait::compute;
  static constexpr std::array<std::string_view, 5> operands = {"decay", "beta", "k", "x", "start"};
  static constexpr auto fields(auto...) { return std::tuple{field("reverse", &DeltaScan::reverse)}; }
  bool operator==(const DeltaScan&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

using LinearScanOps = OpList<LinearScan, DeltaScan>;

}  // namespace rlx
