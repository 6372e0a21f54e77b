// Learned embeddings added to the hidden state: absolute positions, segments.
#pragma once

#include "flow/flow.h"

namespace rlx {

struct PositionEmbeddingSpec {
  std::string weight;  ///< key of the table [count, hidden]
  std::int64_t count = 0, hidden = 0;
  std::string input = "positions";  ///< the rows' indices into the table: "positions", "token_types"
};

/// hidden = hidden + table[input].
FlowStage position_embedding(PositionEmbeddingSpec spec);

}  // namespace rlx
