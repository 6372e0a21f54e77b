// Final norm and logits of the wanted rows.
#pragma once

#include "flow/flow.h"

namespace rlx {

struct LmHeadSpec {
  std::string norm;    ///< key of the final norm [hidden]
  std::string weight;  ///< key of [vocab, hidden]; empty: the token embedding (tied)
  std::int64_t vocab = 0, hidden = 0;
  float eps = 1e-6f;
  float weight_offset = 0.0f;
  float softcap = 0.0f;  ///< logits = cap * tanh(logits / cap); 0: none
};

/// hidden = logits f32[out_rows, vocab]. Reads the input "out_rows" and, when tied, the slot
/// `embedding`.
FlowStage lm_head(LmHeadSpec spec);

}  // namespace rlx
