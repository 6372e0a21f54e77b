// Products with weights together with what makes their input: the products of a decoder layer as single calls.
#pragma once

#include "ir/op.h"
#include "ops/activation.h"

namespace rlx {

/// One to three products of one input, which is normalised and converted inside: h = x, with `norm` RmsNorm of it, in
/// the dtype `to`; y_i = h w_i^T + bias_i, one result for each weight. With `gated` there are two weights and one
/// result, act(h w_0^T) * (h w_1^T); with one weight act and residual are those of Linear.
/// x: f32[..., k], or with neither `norm` nor `to` any dtype that Linear takes. w_i: [n_i, k] of any storage type.
/// Operands in this order: x, the weights, the norm's weight f32[k] (with `norm`), bias_i f32[n_i] for each bit i of
/// `biases`, residual. y_i: f32[..., n_i]. Every value is the one that RmsNorm, QuantizeRows or Cast, and Linear give.
struct FusedLinear {
  std::int32_t weights = 1;
  std::int32_t biases = 0;  ///< bit i: product i has a bias
  Act act = Act::none;
  bool gated = false;
  bool residual = false;
  bool norm = false;
  float eps = 1e-6f;
  float weight_offset = 0.0f;
  DType to = DType::f32;  ///< f32, bf16 or xq8 (k a multiple of 32, x of rank 2)

  static constexpr std::string_view name = "fused_linear";
  static constexpr Trait traits = Trait::compute | Trait::row_wise;
  static constexpr auto fields(auto...) {
    using F = FusedLinear;
    return std::tuple{field("weights", &F::weights), field("biases", &F::biases),
                      field("act", &F::act),         field("gated", &F::gated),
                      field("residual", &F::residual), field("norm", &F::norm),
                      field("eps", &F::eps),         field("weight_offset", &F::weight_offset),
                      field("to", &F::to)};
  }
  bool operator==(const FusedLinear&) const = default;

  bool prologue() const;           ///< the input is made inside
  int products() const;            ///< results
  int norm_at() const;             ///< operands; -1: none
  int bias_at(int product) const;
  int residual_at() const;
  int operand_count() const;
  int in_place() const { return residual_at(); }

  void infer(InferContext&) const;
  void decompose(Body&) const;
  static std::vector<Sample> samples();
};

using FusedOps = OpList<FusedLinear>;

}  // namespace rlx
