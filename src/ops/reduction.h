// Ops along one axis: reductions, softmax, cumulative sums; and the layer norm. Negative axes count
// from the end. Values are read and combined in double, in increasing index, and rounded once.
#pragma once

#include "ir/op.h"

namespace rlx {

/// Of no values: sum 0, prod 1, mean NaN, max the lowest and min the highest value of the dtype
/// (an infinity). max and min are NaN when a value is.
enum class Reduction : std::uint8_t { sum, mean, max, min, prod };
inline constexpr std::array<std::string_view, 5> kReductionNames = {"sum", "mean", "max", "min",
                                                                    "prod"};
constexpr std::span<const std::string_view> enum_names(Reduction) { return kReductionNames; }

/// Combines the values along an axis, which goes away, or stays as 1 with keep_dims. f32, f16,
/// bf16; i32 for sum (modulo 2^32), max and min. Error(shape): mean, max or min over a size that is
/// 0.
struct Reduce {
  Reduction kind = Reduction::sum;
  std::int32_t axis = -1;
  bool keep_dims = false;
  static constexpr std::string_view name = "reduce";
  static constexpr Trait traits = Trait::reduction;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr auto fields(auto...) {
    return std::tuple{field("kind", &Reduce::kind), field("axis", &Reduce::axis),
                      field("keep_dims", &Reduce::keep_dims)};
  }
  bool operator==(const Reduce&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// y[k] is the reduction of x[0..k] along an axis; with `exclusive` of x[0..k-1] (first: that of no
/// values); with `reverse` from the other end. sum and prod (f32, f16, bf16; sum also i32, modulo
/// 2^32), max, min (also i32). kind = mean is an Error(shape).
struct Cumulative {
  Reduction kind = Reduction::sum;
  std::int32_t axis = -1;
  bool exclusive = false, reverse = false;
  static constexpr std::string_view name = "cumulative";
  static constexpr Trait traits = Trait::none;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr auto fields(auto...) {
    return std::tuple{field("kind", &Cumulative::kind), field("axis", &Cumulative::axis),
                      field("exclusive", &Cumulative::exclusive),
                      field("reverse", &Cumulative::reverse)};
  }
  bool operator==(const Cumulative&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// exp(x - m) / sum(exp(x - m)) along an axis, m the largest value. f32, f16, bf16. A line of only
/// -inf, and one with +inf or NaN, becomes NaN, as in NumPy and torch; -inf beside finite values
/// becomes 0.
struct Softmax {
  std::int32_t axis = -1;
  static constexpr std::string_view name = "softmax";
  static constexpr Trait traits = Trait::reduction;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr auto fields(auto...) { return std::tuple{field("axis", &Softmax::axis)}; }
  bool operator==(const Softmax&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// x - m - log(sum(exp(x - m))) along an axis: the logarithm of Softmax, without its underflow.
struct LogSoftmax {
  std::int32_t axis = -1;
  static constexpr std::string_view name = "log_softmax";
  static constexpr Trait traits = Trait::reduction;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr auto fields(auto...) { return std::tuple{field("axis", &LogSoftmax::axis)}; }
  bool operator==(const LogSoftmax&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// The index of the largest value along an axis, the first of equal ones, i32; a NaN counts as
/// largest. f32, f16, bf16, i32. Error(shape) for an axis of size 0.
struct Argmax {
  std::int32_t axis = -1;
  bool keep_dims = false;
  static constexpr std::string_view name = "argmax";
  static constexpr Trait traits = Trait::reduction;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr auto fields(auto...) {
    return std::tuple{field("axis", &Argmax::axis), field("keep_dims", &Argmax::keep_dims)};
  }
  bool operator==(const Argmax&) const = default;
  void infer(InferContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// y = (x - mean) / sqrt(variance + eps) * weight + bias over the last axis, the variance that of
/// the whole population (https://arxiv.org/abs/1607.06450). x, y: f32[..., n]; weight: f32[n];
/// bias: f32[n], present when `bias` is set.
struct LayerNorm {
  float eps = 1e-5f;
  bool bias = true;
  static constexpr std::string_view name = "layer_norm";
  static constexpr Trait traits = Trait::reduction | Trait::row_wise;
  static constexpr std::array<std::string_view, 3> operands = {"x", "weight", "bias"};
  static constexpr int optional_operands = 1;
  static constexpr int in_place = 0;
  static constexpr auto fields(auto...) {
    return std::tuple{field("eps", &LayerNorm::eps), field("bias", &LayerNorm::bias)};
  }
  bool operator==(const LayerNorm&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

using ReductionOps = OpList<Reduce, Cumulative, Softmax, LogSoftmax, Argmax, LayerNorm>;

}  // namespace rlx
