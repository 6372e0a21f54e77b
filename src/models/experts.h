// What files say about a mixture of experts.
#pragma once

#include "models/architecture.h"

namespace rlx {

/// Reads config.moe from the keys of a GGUF file, where it counts experts: "expert_used_count",
/// "expert_feed_forward_length", "expert_gating_func" (1 softmax, 2 sigmoid, 3 softmax of the chosen),
/// "expert_weights_norm" (absent: what config.moe says, the habit of the family),
/// "expert_weights_scale" (0 or absent: 1), "expert_group_count", "expert_group_used_count" and
/// "expert_shared_feed_forward_length". A layer has experts when it has a router. Errors: format,
/// unsupported (a gating function without a name here).
void read_gguf_experts(const GgufFile& file, const WeightSource& weights, DecoderConfig& config);

/// Which layers have experts by config.json: those at the end of each decoder_sparse_step layers, but
/// for mlp_only_layers. Error(format): a step below 1.
std::vector<bool> sparse_layers(const HubConfig& hub, const DecoderConfig& config);

/// Reads config.moe from the keys that Qwen's families with experts share: num_local_experts (before
/// transformers 5 num_experts), num_experts_per_tok, moe_intermediate_size, norm_topk_prob. What may be
/// absent has its value in the family's defaults.
void read_hub_experts(const HubConfig& hub, DecoderConfig& config);

}  // namespace rlx
