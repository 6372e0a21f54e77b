// Choosing the next token from logits. Chain: penalties, top-k, top-p, min-p, temperature, draw
// (interfaces.md, 3.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"

namespace rlx {

/// Options of a Sampler; the defaults are those users of llama.cpp know.
struct SamplerOptions {
  float temperature = 0.8f;  ///< 0: greedy, ties to the lower id; else >= 0
  int top_k = 40;            ///< keep the k best; 0 or less: all
  float top_p = 0.95f;  ///< keep the smallest set whose probability reaches p, in [0, 1]; 1: all
  float min_p = 0.05f;  ///< drop what is below min_p * (best probability), in [0, 1]; 0: none
  float repeat_penalty =
      1.0f;  ///< > 0; divides positive logits of seen tokens, multiplies the others; 1: off
  int repeat_last_n = 64;  ///< tokens of the history that the penalties look at; -1: all, 0: none
  float presence_penalty = 0.0f;   ///< in [-2, 2]; subtracted once from each seen token
  float frequency_penalty = 0.0f;  ///< in [-2, 2]; subtracted for each time a token was seen
  int64_t seed = -1;               ///< -1: random
};

/// Throws Error(invalid_argument) that names the field, its range and the value found.
void validate(const SamplerOptions& options);

/// Draws tokens. Random numbers are Philox 4x32-10 of (seed, step), so a request's output depends
/// on its seed only, whatever else a batch holds. Source: Salmon et al., "Parallel random numbers:
/// as easy as 1, 2, 3", SC11.
class Sampler {
 public:
  explicit Sampler(SamplerOptions options);

  /// The next token id. `logits`: [vocabulary], f32; -inf forbids a token. `history`: the sequence
  /// so far, oldest first; ids outside the vocabulary are ignored. Throws Error(invalid_argument)
  /// when the logits are empty, and Error(device) that names the place when a logit is NaN or +inf
  /// or all are -inf (faults.md, N02). No allocation after the first call with the same vocabulary
  /// size.
  int32_t sample(std::span<const float> logits, std::span<const int32_t> history);

  /// Back to step 0 with the same seed.
  void reset() { step_ = 0; }

  /// The seed in use; differs from the option when that was -1.
  uint64_t seed() const { return seed_; }
  const SamplerOptions& options() const { return options_; }

 private:
  struct Candidate {
    float logit;
    int32_t id;
  };
  void apply_penalties(std::span<const int32_t> history);
  void select_top_k();
  double keep_top_p();
  int32_t draw();
  double next_uniform();

  SamplerOptions options_;
  uint64_t seed_ = 0;
  uint64_t step_ = 0;
  std::vector<Candidate> candidates_;  // [vocabulary]; the kept ones first
  std::vector<int32_t> counts_;        // [vocabulary]; zero between calls
  std::vector<double> weights_;        // [kept]
  size_t kept_ = 0;
};

}  // namespace rlx
