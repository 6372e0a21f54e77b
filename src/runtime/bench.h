// Speed of prompts, of decoding and of encoders, measured as llama-bench does: whole steps, without tokeniser and
// sampler.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/decoder.h"
#include "runtime/encoder.h"
#include "runtime/kernel_profile.h"
#include "runtime/probe.h"

namespace rlx {

/// decoder: `prompt` tokens at once, then `generated` one by one, behind `depth` tokens that the cache already holds.
/// encoder: `sequences` of `prompt` tokens each in one run. images: as many images.
enum class BenchKind : std::uint8_t { decoder, encoder, images };
struct BenchTest {
  std::int64_t prompt = 0, generated = 0, depth = 0;
  std::int64_t sequences = 1;  ///< that generate, or run, together
  BenchKind kind = BenchKind::decoder;

  static BenchTest encoder(std::int64_t batch, std::int64_t seq) { return {seq, 0, 0, batch, BenchKind::encoder}; }
  static BenchTest images(std::int64_t batch) { return {0, 0, 0, batch, BenchKind::images}; }
  std::string name() const;    ///< "pp512", "tg128", "pp512+tg128", "pp512 @ d4096"; "b32 s128"; "b8"
  /// What a repetition is counted in: its tokens, or its images.
  std::int64_t items() const;
};

struct BenchResult {
  BenchTest test;
  std::vector<double> seconds;  ///< of each repetition
  std::vector<double>
      step_ms;  ///< of every decode step, sorted; of every prompt when nothing is generated
  double first_token_ms = 0;  ///< median time until the first logits; of one step without a prompt
  ProbeResult probe;          ///< mean of the probes before and after
  StepWork work;              ///< of one repetition

  double tokens_per_second(std::size_t repetition) const;
  double mean_tps() const;
  double stddev_tps() const;
  double median_tps() const;
  double median_ms() const;  ///< of step_ms
  double p95_ms() const;
  /// How much of the machine's measured rate was used, products at the rate of their unit: of memory reads where
  /// tokens are generated, of products for prompts.
  double share() const;
  ComputeUnit unit() const;  ///< that has most of the products
};

struct BenchOptions {
  std::int64_t repetitions = 5;
  bool warm_up = true;
  bool profile = false;             ///< times by kernel of the repetitions alone (Decoder::profile)
  std::function<bool()> cancelled;  ///< asked between steps, may be empty
};

/// The tokens that a sequence has at most in these tests.
std::int64_t needed_context(const std::vector<BenchTest>& tests);

/// Errors: limit (the context is too small).
BenchResult bench(Decoder& decoder, const BenchTest& test, const BenchOptions& options);
/// The same of an encoder or an image model. Errors: as EncoderModel::run.
BenchResult bench(EncoderModel& model, const BenchTest& test, const BenchOptions& options);
/// Side of the images that a model of any size is measured on.
constexpr std::int64_t kBenchImageSide = 224;

}  // namespace rlx
