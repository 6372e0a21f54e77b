// Parts of a config.json that families read in their own way.
#pragma once

#include <string_view>
#include <vector>

#include "models/hub_config.h"
#include "models/rope.h"

namespace rlx {

/// RoPE of the layers of a type ("full_attention"; only where the parameters are nested by type),
/// from `rope_parameters`, or `rope_theta` and `rope_scaling`. `context`: max_position_embeddings.
RopeConfig read_hub_rope(const HubConfig& hub, std::string_view layer_type, std::int64_t context);

/// Which layers have a window: `layer_types` where it is given, else the family's rule.
std::vector<bool> read_layer_types(const HubConfig& hub, std::int64_t layers,
                                   bool (*by_rule)(const HubConfig&, std::int64_t));

/// Qwen's window: off unless `use_sliding_window`, and then on the layers from `max_window_layers`
/// up.
void read_upper_window(const HubConfig& hub, DecoderConfig& config);

}  // namespace rlx
