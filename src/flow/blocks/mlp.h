// MLPs: gated (SwiGLU, GeGLU; https://arxiv.org/abs/2002.05202) and plain.
#pragma once

#include "flow/flow.h"
#include "ops/activation.h"

namespace rlx {

struct MlpSpec {
  std::int64_t hidden = 0, inner = 0;
  Act act = Act::silu;
  std::string gate, up, down;                 ///< [inner, hidden] twice, [hidden, inner]
  std::string gate_bias, up_bias, down_bias;  ///< all three or none
};

/// hidden = (act(x gate^T + gate_bias) * (x up^T + up_bias)) down^T + down_bias.
FlowStage gated_mlp(MlpSpec spec);

/// Two products with an activation between them.
struct PlainMlpSpec {
  std::int64_t hidden = 0, inner = 0;
  Act act = Act::gelu;
  std::string up, down;            ///< [inner, hidden], [hidden, inner]
  std::string up_bias, down_bias;  ///< each there when its key is not empty
};

/// hidden = act(x up^T + up_bias) down^T + down_bias.
FlowStage plain_mlp(PlainMlpSpec spec);

}  // namespace rlx
