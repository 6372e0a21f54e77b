// Matrix products with weights.
#pragma once

#include "ir/op.h"
#include "ops/activation.h"

namespace rlx {

/// y = act(x w^T + bias) + residual.   x: [..., k] f32, xq8 or bf16; w: [n, k] of any storage type,
/// plain or p16; bias: f32[n]; residual, y: f32[..., n]. The operands bias and residual follow x, w
/// in this order, each present when its flag is set. Sums run in increasing k, one chain per
/// result; with xq8 the integer dots of each block are exact and blocks combine in increasing k
/// (kernels.md, 2.8).
struct Linear {
  Act act = Act::none;
  bool bias = false;
  bool residual = false;

  static constexpr std::string_view name = "linear";
  static constexpr Trait traits = Trait::compute | Trait::row_wise;
  static constexpr std::array<std::string_view, 4> operands = {"x", "w", "bias", "residual"};
  static constexpr int optional_operands = 2;
  static constexpr auto fields(auto...) {
    return std::tuple{field("act", &Linear::act), field("bias", &Linear::bias),
                      field("residual", &Linear::residual)};
  }
  bool operator==(const Linear&) const = default;
  int bias_at() const { return bias ? 2 : -1; }
  int residual_at() const { return residual ? 2 + bias : -1; }
  int in_place() const { return residual_at(); }
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// y = act(x gate^T) * (x up^T): the first half of a gated MLP (SwiGLU and GeGLU of
/// https://arxiv.org/abs/2002.05202). x: [rows, k] of a dtype that Linear takes.
/// gate, up: [n, k] of one storage type and layout. y: f32[rows, n].
struct GatedLinear {
  Act act = Act::silu;

  static constexpr std::string_view name = "gated_linear";
  static constexpr Trait traits = Trait::compute | Trait::row_wise;
  static constexpr std::array<std::string_view, 3> operands = {"x", "gate", "up"};
  static constexpr auto fields(auto...) { return std::tuple{field("act", &GatedLinear::act)}; }
  bool operator==(const GatedLinear&) const = default;
  void infer(InferContext&) const;
  void decompose(Body&) const;
  static std::vector<Sample> samples();
};

using MatmulOps = OpList<Linear, GatedLinear>;

}  // namespace rlx
