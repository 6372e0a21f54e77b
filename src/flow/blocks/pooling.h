// One row per sequence: the class token, or a mean, with an optional product.
#pragma once

#include "flow/flow.h"
#include "ops/dense_attention.h"

namespace rlx {

struct PoolingSpec {
  SequencePooling kind = SequencePooling::first;
  std::string weight, bias;  ///< keys of [hidden, hidden] and [hidden]: tanh(pooled weight^T + bias); empty: no product
  std::int64_t hidden = 0;
};

/// hidden = f32[batch, hidden]. Reads the input "seq_start".
FlowStage pool_hidden(PoolingSpec spec);

}  // namespace rlx
