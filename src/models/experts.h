// What files say about a mixture of experts.
#pragma once

#include "models/architecture.h"

namespace rlx {

/// Reads config.moe from the keys of a GGUF file, where it counts experts: "expert_used_count",
/// "expert_feed_forward_length", "expert_gating_func" (1 softmax, 2 sigmoid, 3 softmax of the chosen),
/// "expert_weights_norm" (default: true), "expert_weights_scale" (0 or absent: 1),
/// "expert_group_count" and "expert_group_used_count". A layer has experts when it has a router.
/// Errors: format, unsupported (a gating function without a name here).
void read_gguf_experts(const GgufFile& file, const WeightSource& weights, DecoderConfig& config);

}  // namespace rlx
