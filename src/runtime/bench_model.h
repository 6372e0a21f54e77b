// A model with random weights of a known shape, for speed measurements without a download.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/load.h"

namespace rlx {

/// Names of the shapes: "llama-1b", "qwen3-0.6b", "bert-base", ...
std::vector<std::string_view> random_model_names();

/// Builds it in memory. `type`: of the matrices, empty: q8_0 for decoders, f32 for others; rows that a 256-wide type
/// does not divide fall back as in GGUF files of that type (q4_K to q5_0, q6_K to q8_0, ...). `layers` above 0 replaces
/// the shape's own count. Errors: usage (an unknown name or type, with those that there are); unsupported (a type whose
/// blocks do not divide the rows); memory.
LoadedModel random_model(std::string_view name, std::string_view type, std::int64_t layers);

}  // namespace rlx
