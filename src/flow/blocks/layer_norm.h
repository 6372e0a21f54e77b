// Layer normalisation of the hidden state.
#pragma once

#include "flow/flow.h"

namespace rlx {

struct LayerNormSpec {
  std::string weight, bias;  ///< keys of the vectors [size]; no bias when its key is empty
  std::int64_t size = 0;
  float eps = 1e-5f;
};

/// hidden = (x - mean) / sqrt(variance + eps) * weight + bias (https://arxiv.org/abs/1607.06450).
FlowStage layer_norm(LayerNormSpec spec);

}  // namespace rlx
