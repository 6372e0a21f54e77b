// One generation: a prompt in steps, then token by token until an end token, a limit or the caller
// stops it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/hints.h"
#include "runtime/decoder.h"
#include "text/sampler.h"

namespace rlx {

/// Why a generation ended. error: logits that are not finite (faults.md, N02). cancelled: the
/// caller's wish.
enum class FinishReason : std::uint8_t { stop, length, error, cancelled };
/// "stop", "length", "error"; a cancelled text is "stop" to clients.
std::string_view name(FinishReason reason);

struct GenerateOptions {
  std::int64_t max_tokens = -1;  ///< -1: until an end token or the end of the context
  std::span<const std::int32_t>
      ends;  ///< tokens that end the text and are no part of it; empty: none do
  std::int64_t sequence = 0;
  std::function<bool()> cancelled;  ///< asked between steps, may be empty
  std::int64_t (*allocations)() =
      nullptr;  ///< count of heap allocations of the process so far, for --stats
};

struct GenerateResult {
  std::vector<std::int32_t> ids;  ///< generated tokens, without the end token
  FinishReason reason = FinishReason::length;
  std::string error;                    ///< of FinishReason::error
  std::int64_t prompt_tokens = 0;       ///< of the whole prompt
  std::int64_t cached_tokens = 0;       ///< of them already in the cache
  double prompt_ms = 0, decode_ms = 0;  ///< until the logits of the first token; all steps after it
  std::int64_t decode_steps = 0;
  std::int64_t step_allocations = 0;  ///< in the decode steps after the first

  double prompt_per_second() const;  ///< 0 when nothing was measured
  double decode_per_second() const;
};

/// Steps what `prompt` adds to the first `cached` tokens, which the sequence already holds, and
/// generates. `on_token` gets each token as it is chosen. The sequence must hold exactly `cached`
/// tokens, fewer than the prompt. Errors: limit (the prompt is longer than the context: both
/// numbers), invalid_argument (an empty prompt, a token outside the vocabulary).
GenerateResult generate(Decoder& decoder, std::span<const std::int32_t> prompt, std::int64_t cached,
                        Sampler& sampler, const GenerateOptions& options,
                        const std::function<void(std::int32_t)>& on_token);

/// Error(limit) that names both numbers when a prompt does not fit.
void require_fits(std::int64_t prompt_tokens, std::int64_t context);

/// What a user asked of sampling; absent: nothing was said.
struct SamplingWishes {
  std::optional<double> temperature, top_p, min_p, repeat_penalty, presence_penalty,
      frequency_penalty;
  std::optional<std::int64_t> top_k, seed;
};

/// The options in force: a wish wins over the checkpoint's hint, which wins over the default.
/// `origin` gets one line that says which value came from where. Errors (usage): a wish out of
/// range, named by its flag.
SamplerOptions resolve_sampling(const SamplingWishes& wishes, const ModelHints& hints,
                                std::string* origin = nullptr);

}  // namespace rlx
