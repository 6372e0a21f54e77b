// Token embedding: the first hidden state.
#pragma once

#include "flow/flow.h"

namespace rlx {

struct EmbeddingSpec {
  std::string weight;  ///< key of the table [vocab, hidden]
  std::int64_t vocab = 0, hidden = 0;
  float scale = 1.0f;  ///< Gemma multiplies by sqrt(hidden)
};

/// hidden = table[tokens] * scale; reads the input "tokens", fills the slots `hidden` and
/// `embedding`.
FlowStage token_embedding(EmbeddingSpec spec);

}  // namespace rlx
