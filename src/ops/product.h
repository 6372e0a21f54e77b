// Matrix products of two activations: with batch dims, and over any axes. (Products with weights:
// ops/matmul.h.)
#pragma once

#include "ir/op.h"
#include "ops/attr_lists.h"

namespace rlx {

/// y[..., i, j] = sum over l of a[..., i, l] * b[..., l, j].   a: [..., m, k], or [..., k, m] with
/// transpose_a; b: [..., k, n], or [..., n, k] with transpose_b; the batch dims broadcast as in
/// NumPy. a, b: f32, f16 or bf16, each its own; y: f32[..., m, n]. Sums run in increasing l.
struct BatchedMatmul {
  bool transpose_a = false, transpose_b = false;
  static constexpr std::string_view name = "batched_matmul";
  static constexpr Trait traits = Trait::compute;
  static constexpr std::array<std::string_view, 2> operands = {"a", "b"};
  static constexpr auto fields(auto...) {
    return std::tuple{field("transpose_a", &BatchedMatmul::transpose_a),
                      field("transpose_b", &BatchedMatmul::transpose_b)};
  }
  bool operator==(const BatchedMatmul&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// The sum over pairs of axes (https://openxla.org/stablehlo/spec, dot_general): a_contract[i] of a
/// with b_contract[i] of b, for each place of the batch axes a_batch[i] and b_batch[i]. y: the
/// batch dims, then a's other dims, then b's, each in its order; f32, at most rank 6. a, b: f32,
/// f16 or bf16, each its own. No contracted axes: the outer product.
struct DotGeneral {
  Axes a_contract, b_contract, a_batch, b_batch;
  static constexpr std::string_view name = "dot_general";
  static constexpr Trait traits = Trait::compute;
  static constexpr std::array<std::string_view, 2> operands = {"a", "b"};
  static constexpr auto fields(auto...) {
    return std::tuple{
        field("a_contract", &DotGeneral::a_contract), field("b_contract", &DotGeneral::b_contract),
        field("a_batch", &DotGeneral::a_batch), field("b_batch", &DotGeneral::b_batch)};
  }
  bool operator==(const DotGeneral&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

using ProductOps = OpList<BatchedMatmul, DotGeneral>;

}  // namespace rlx
