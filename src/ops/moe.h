// Mixture of experts (https://arxiv.org/abs/1701.06538): the choice of experts for each row, the
// products with the weights of the chosen experts, and the weighted sum of their results. The k
// experts of a row stand in k slots.
#pragma once

#include "ir/op.h"
#include "ops/activation.h"

namespace rlx {

/// How logits become the weights of experts. softmax: over all experts, then the best k (Switch,
/// Qwen 3). sigmoid: of each logit by itself (DeepSeek V3, https://arxiv.org/abs/2412.19437).
/// softmax_selected: the best k logits, then a softmax over them (Mixtral, gpt-oss).
enum class Scoring : std::uint8_t { softmax, sigmoid, softmax_selected };
inline constexpr std::array<std::string_view, 3> kScoringNames = {"softmax", "sigmoid",
                                                                  "softmax_selected"};
constexpr std::span<const std::string_view> enum_names(Scoring) { return kScoringNames; }

/// The attributes of a choice of experts, of each op that has them.
template <typename M>
constexpr auto route_fields() {
  return std::tuple{field("k", &M::k),
                    field("scoring", &M::scoring),
                    field("normalize", &M::normalize),
                    field("bias", &M::bias),
                    field("factor", &M::factor),
                    field("groups", &M::groups),
                    field("group_limit", &M::group_limit),
                    field("group_top", &M::group_top)};
}

/// The k experts of each row, best first (of equal scores the lower number), and their weights.
/// logits: f32[rows, experts]; bias: f32[experts], present when `bias` is set, is added to the scores
/// for the choice only. Results: ids i32[rows, k], weights f32[rows, k].
/// With groups > 1 (DeepSeek V2, https://arxiv.org/abs/2405.04434) the experts are `groups` runs of
/// equal length; a group's score is the sum of its `group_top` best, and the choice is among the
/// experts of the `group_limit` best groups. `normalize`: weights are divided by their sum (at least
/// 1e-20). In the end they are multiplied by `factor`.
struct MoeRoute {
  std::int32_t k = 2;
  Scoring scoring = Scoring::softmax;
  bool normalize = false;
  bool bias = false;
  float factor = 1.0f;
  std::int32_t groups = 1;
  std::int32_t group_limit = 1;
  std::int32_t group_top = 2;

  static constexpr std::string_view name = "moe_route";
  static constexpr Trait traits = Trait::reduction;
  static constexpr std::array<std::string_view, 2> operands = {"logits", "bias"};
  static constexpr int optional_operands = 1;
  static constexpr auto fields(auto...) {
    return route_fields<MoeRoute>();
  }
  bool operator==(const MoeRoute&) const = default;
  void infer(InferContext&) const;
  void decompose(Body&) const;
  static std::vector<Sample> samples();
};

/// y[r, s] = x[r, s] w[ids[r, s]]^T + bias[ids[r, s]]: a product grouped by expert.
/// x: [rows, k] (one row for all its slots) or [rows, slots, k], f32, xq8 or bf16; ids: i32[rows,
/// slots]; w: [experts, n, k] of any storage type, plain or p16; bias: f32[experts, n], present when
/// `bias` is set; y: f32[rows, slots, n]. An id outside [0, experts) gives zeros. Sums as Linear: one
/// chain in increasing k for each result, whatever other rows chose the same expert.
struct ExpertLinear {
  bool bias = false;

  static constexpr std::string_view name = "expert_linear";
  static constexpr Trait traits = Trait::compute;
  static constexpr std::array<std::string_view, 4> operands = {"x", "ids", "w", "bias"};
  static constexpr int optional_operands = 1;
  static constexpr auto fields(auto...) { return std::tuple{field("bias", &ExpertLinear::bias)}; }
  bool operator==(const ExpertLinear&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// y[r, s] = act(x gate[e]^T) * (x up[e]^T) with e = ids[r, s]: the first half of a gated expert.
/// gate, up: [experts, n, k] of one storage type and layout; the rest as ExpertLinear.
struct ExpertGatedLinear {
  Act act = Act::silu;

  static constexpr std::string_view name = "expert_gated_linear";
  static constexpr Trait traits = Trait::compute;
  static constexpr std::array<std::string_view, 4> operands = {"x", "ids", "gate", "up"};
  static constexpr auto fields(auto...) { return std::tuple{field("act", &ExpertGatedLinear::act)}; }
  bool operator==(const ExpertGatedLinear&) const = default;
  void infer(InferContext&) const;
  void decompose(Body&) const;
  static std::vector<Sample> samples();
};

/// The sum over the slots of a row, in rising order, of weight times result. x: f32[rows, slots, n],
/// weights: f32[rows, slots], y: f32[rows, n].
struct ExpertSum {
  static constexpr std::string_view name = "expert_sum";
  static constexpr Trait traits = Trait::reduction;
  static constexpr std::array<std::string_view, 2> operands = {"x", "weights"};
  static constexpr auto fields(auto...) { return std::tuple{}; }
  bool operator==(const ExpertSum&) const = default;
  void infer(InferContext&) const;
  void decompose(Body&) const;
  static std::vector<Sample> samples();
};

/// The block of HIR: route x by the logits x router^T, run the chosen gated experts, sum them up.
/// x, y: f32[rows, hidden]; router: [experts, hidden]; gate, up: [experts, inner, hidden]; down:
/// [experts, hidden, inner]; bias: f32[experts], as of MoeRoute, whose attributes the others are.
struct MoeMlp {
  Act act = Act::silu;
  std::int32_t k = 2;
  Scoring scoring = Scoring::softmax;
  bool normalize = false;
  bool bias = false;
  float factor = 1.0f;
  std::int32_t groups = 1;
  std::int32_t group_limit = 1;
  std::int32_t group_top = 2;

  static constexpr std::string_view name = "moe_mlp";
  static constexpr Trait traits = Trait::composite;
  static constexpr std::array<std::string_view, 6> operands = {"x",  "router", "gate",
                                                               "up", "down",   "bias"};
  static constexpr int optional_operands = 1;
  static constexpr auto fields(auto...) {
    return std::tuple_cat(std::tuple{field("act", &MoeMlp::act)}, route_fields<MoeMlp>());
  }
  bool operator==(const MoeMlp&) const = default;
  MoeRoute route() const {
    return {k, scoring, normalize, bias, factor, groups, group_limit, group_top};
  }
  void infer(InferContext&) const;
  void decompose(Body&) const;
  static std::vector<Sample> samples();
};

using MoeOps = OpList<MoeRoute, ExpertLinear, ExpertGatedLinear, ExpertSum, MoeMlp>;

}  // namespace rlx
