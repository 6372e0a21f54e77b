// A bias of attention scores by distance, which layers share.
#pragma once

#include "flow/flow.h"

namespace rlx {

struct RelativeBiasSpec {
  std::string node = "position_bias";  ///< name under which attention blocks find it
  std::string weight;                  ///< key of the table [buckets, heads]
  std::int64_t buckets = 0, heads = 0, max_distance = 0;
  bool bidirectional = true;  ///< false: of a causal decoder
};

/// Fills the node slot with f32[heads, 2 * max_distance + 1] (RelativeBias). It depends on no input: made once.
FlowStage relative_bias(RelativeBiasSpec spec);

}  // namespace rlx
