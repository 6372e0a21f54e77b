// Layers that are alike, once: a report of a model of 32 layers names the body and the layers that have it.
#pragma once

#include <string>
#include <vector>

#include "compiler/dispatch.h"

namespace rlx {

/// What the layers of a model run: equal bodies are one entry.
struct LayerBody {
  std::vector<std::string> layers;  ///< the prefixes of their stages: "layers.0", "layers.1"
  std::vector<std::string> calls;   ///< "self_attention linear<linear_q4_0_avx2>", in order; no views
};

/// The layers of a report, by the body, in the order of their first call. A layer is what has a number as the second
/// part of its stage's name; what stands outside of all layers is left out.
std::vector<LayerBody> layer_bodies(const DispatchReport& report);

/// "layers.0-31 (32 alike, 8 calls)" and the calls below it.
std::string layers_text(const std::vector<LayerBody>& bodies);

}  // namespace rlx
