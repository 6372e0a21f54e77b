// The mixture-of-experts MLP of a decoder layer: routed experts, and shared ones that see every row.
#pragma once

#include "flow/flow.h"
#include "ops/moe.h"

namespace rlx {

/// How the weights of all experts of a layer are stored.
struct ExpertTensors {
  /// "{}" stands for the number of the expert: a matrix for each. Without it one tensor [experts, rows,
  /// columns].
  std::string name;
  /// Where gate and up share the rows of one tensor: of how many rows of an expert these are, from
  /// which on. 0: a tensor of their own.
  std::int64_t stored_rows = 0, first_row = 0;
};

struct MoeSpec {
  std::int64_t hidden = 0, inner = 0;  ///< inner: of one routed expert
  std::int64_t experts = 0;
  Act act = Act::silu;
  MoeRoute route;           ///< `bias` is set by the block
  std::string router;       ///< [experts, hidden]
  std::string choice_bias;  ///< f32[experts], added to scores for the choice only; may be empty
  ExpertTensors gate, up, down;  ///< [inner, hidden] twice and [hidden, inner] for each expert
  /// Shared experts as one gated MLP (DeepSeek, https://arxiv.org/abs/2401.06066); 0: none.
  std::int64_t shared_inner = 0;
  std::string shared_gate, shared_up, shared_down;
  /// [1, hidden] or [hidden]: a sigmoid of its product scales the shared part (Qwen 2); may be empty.
  std::string shared_router;
};

/// hidden = sum of the chosen experts' results, by weight, + the shared experts' result.
FlowStage moe_mlp(MoeSpec spec);

}  // namespace rlx
