// How well a model predicts a text: perplexity as llama-perplexity counts it, and the distance from
// another model.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/decoder.h"

namespace rlx {

/// Log of the softmax at one index, and of the whole row. Errors (device): a logit that is NaN or
/// +inf, or all -inf.
double log_sum_exp(std::span<const float> logits);

struct EvalOptions {
  std::int64_t chunk = 512;         ///< tokens of a chunk; its second half is counted
  std::int32_t bos = -1;            ///< stands in place of each chunk's first token; -1: none
  std::function<bool()> cancelled;  ///< asked between steps, may be empty
  /// Called after each chunk with its number, how many there are, and the mean so far.
  std::function<void(std::int64_t, std::int64_t, double)> progress;
};

struct Perplexity {
  double ppl = 0, stderr_ = 0;  ///< exp of the mean negative log likelihood, and its standard error
  std::int64_t tokens = 0;      ///< predictions that were counted
};
struct Distance {
  double mean_kl = 0, max_kl = 0;  ///< KL(base, model) in nats over the whole vocabulary
  double top1 = 0;  ///< share of positions where both have the same most likely token
  std::int64_t tokens = 0;
};

/// Errors: usage (fewer tokens than two chunks; a chunk below 2), device (logits that are not
/// finite), limit.
Perplexity perplexity(Decoder& decoder, std::span<const std::int32_t> tokens,
                      const EvalOptions& options);
/// The same positions in both models. Error(shape): other vocabularies.
Distance distance(Decoder& model, Decoder& base, std::span<const std::int32_t> tokens,
                  const EvalOptions& options);

}  // namespace rlx
