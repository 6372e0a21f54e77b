// Normalisation of the hidden state.
#pragma once

#include "flow/flow.h"

namespace rlx {

struct NormSpec {
  std::string weight;  ///< key of the vector [size]
  std::int64_t size = 0;
  float eps = 1e-6f;
  float weight_offset = 0.0f;  ///< 1 where the checkpoint stores w and the model means 1 + w
};

/// hidden = x / sqrt(mean(x^2) + eps) * (weight + weight_offset).
FlowStage rms_norm(NormSpec spec);

}  // namespace rlx
