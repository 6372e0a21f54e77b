// What a checkpoint says about ending and sampling a text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "formats/gguf.h"
#include "models/hub_config.h"

namespace rlx {

/// Defaults of generation; a user's own choice wins over each. Absent: the checkpoint says nothing.
struct ModelHints {
  std::vector<std::int32_t> eos;  ///< tokens that end a text, each once, in the order of the files
  std::optional<std::int32_t> bos, pad;
  std::optional<bool> do_sample;             ///< false: greedy
  std::optional<double> temperature;         ///< 0 or above
  std::optional<std::int64_t> top_k;         ///< 0: off
  std::optional<double> top_p, min_p;        ///< 0 to 1
  std::optional<double> repetition_penalty;  ///< above 0
};

/// From tokenizer.ggml.*_token_id and general.sampling.*. Error(format): an id outside 0 .. vocab -
/// 1, a setting outside its range; file, key, expected and found are named.
ModelHints read_hints(const GgufFile& file, std::int64_t vocab);
/// From config.json and, over it, generation_config.json (nullptr: there is none).
ModelHints read_hints(const HubConfig& config, const HubConfig* generation, std::int64_t vocab);

}  // namespace rlx
