// Low-rank adapters (LoRA, https://arxiv.org/abs/2106.09685).
#pragma once

#include "ir/op.h"

namespace rlx {

/// y = x w^T + bias + scale * (x a^T) b^T. A block: its common form is two further products, which
/// fuse and pack like any other.
/// x: f32[rows, k]; w: [n, k]; bias: f32[n], present when `bias` is set; y: f32[rows, n].
/// One adapter: a: [r, k], b: [n, r]. With `per_row`: a: [adapters, r, k], b: [adapters, n, r], and
/// a last operand ids: i32[rows] names the adapter of each row; an id outside [0, adapters) means
/// none. Weights are of any storage type. `scale` is alpha / r of the paper.
struct LoraLinear {
  float scale = 1.0f;
  bool bias = false;
  bool per_row = false;

  static constexpr std::string_view name = "lora_linear";
  static constexpr Trait traits = Trait::composite;
  static constexpr std::array<std::string_view, 6> operands = {"x", "w", "a", "b", "bias", "ids"};
  static constexpr int optional_operands = 2;
  static constexpr auto fields(auto...) {
    return std::tuple{field("scale", &LoraLinear::scale), field("bias", &LoraLinear::bias),
                      field("per_row", &LoraLinear::per_row)};
  }
  bool operator==(const LoraLinear&) const = default;
  int bias_at() const { return bias ? 4 : -1; }
  int ids_at() const { return per_row ? 4 + bias : -1; }
  void infer(InferContext&) const;
  void decompose(Body&) const;
  static std::vector<Sample> samples();
};

using LoraOps = OpList<LoraLinear>;

}  // namespace rlx
