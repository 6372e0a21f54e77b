// Normalisation over the last axis.
#pragma once

#include "ir/op.h"

namespace rlx {

/// y = x / sqrt(mean(x^2) + eps) * (weight + weight_offset) (https://arxiv.org/abs/1910.07467).
/// x, y: f32[..., n]; weight: f32[g]. With `group` = g > 0 each run of g values of the last axis (n
/// a multiple of g) is normalised alone with the same weight (per-head QK norm); group = 0: the
/// whole axis, g = n. Gemma adds 1 to its weights.
struct RmsNorm {
  float eps = 1e-6f;
  float weight_offset = 0.0f;
  std::int32_t group = 0;

  static constexpr std::string_view name = "rms_norm";
  static constexpr Trait traits = Trait::reduction | Trait::row_wise;
  static constexpr std::array<std::string_view, 2> operands = {"x", "weight"};
  static constexpr int in_place = 0;
  static constexpr auto fields(auto...) {
    return std::tuple{field("eps", &RmsNorm::eps), field("weight_offset", &RmsNorm::weight_offset),
                      field("group", &RmsNorm::group)};
  }
  bool operator==(const RmsNorm&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// RmsNorm (group 0) followed by QuantizeRows. One formula on all paths (kernels.md, 2.3): q and
/// the group's d from x * (weight + weight_offset) before the norm, then d times 1/rms. x:
/// f32[rows, n]; weight: f32[n]; y: xq8[rows, n], n a multiple of 32. Sum of squares: one partial
/// per 16 values, added in increasing order.
struct RmsNormQuantize {
  float eps = 1e-6f;
  float weight_offset = 0.0f;

  static constexpr std::string_view name = "rms_norm_quantize";
  static constexpr Trait traits = Trait::reduction | Trait::row_wise;
  static constexpr std::array<std::string_view, 2> operands = {"x", "weight"};
  static constexpr auto fields(auto...) {
    return std::tuple{field("eps", &RmsNormQuantize::eps),
                      field("weight_offset", &RmsNormQuantize::weight_offset)};
  }
  bool operator==(const RmsNormQuantize&) const = default;
  void infer(InferContext&) const;
  void decompose(Body&) const;
  static std::vector<Sample> samples();
};

using NormOps = OpList<RmsNorm, RmsNormQuantize>;

}  // namespace rlx
