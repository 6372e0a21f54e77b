// Fine-tuning of a decoder with low-rank adapters: the frozen model in its functional form, gradients of the factors,
// AdamW, all in one compiled step.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "compiler/training.h"
#include "device/device.h"
#include "ir/options.h"
#include "models/lora.h"

namespace rlx {

struct LoraTuneOptions {
  std::int64_t steps = 20;
  std::int64_t tokens = 64;  ///< of a step
  std::int64_t rank = 8;
  float alpha = 16.0f;  ///< the factors' product is scaled by alpha / rank
  float learning_rate = 2e-3f;
  std::vector<std::string> products = {"q", "k", "v", "o", "gate", "up", "down"};
  AdamW optimiser{.weight_decay = 0.0f};
  std::uint64_t seed = 1;  ///< of the first values of A; B begins with zeros
  int threads = 0;  ///< 0: RLX_THREADS, else the physical cores
  Device device = Device::cpu();
  CompileOptions compile;
  /// After each step: its number from 1 on, and the loss before its update, in nats per token.
  std::function<void(std::int64_t step, double loss)> progress;
  /// Asked before each step and each window of a mean loss, which then is that of the windows so far.
  std::function<bool()> cancelled;
};

struct LoraTuneResult {
  LoraAdapter adapter;
  std::vector<double> losses;             ///< of each step
  double loss_before = 0, loss_after = 0;  ///< mean over the text that the steps read
};

/// Reads the text in windows of options.tokens (each predicts the token after every one of its tokens), from the
/// start, again and again until the steps are done. Errors: invalid_argument (a text shorter than two tokens, an
/// option out of range, a token outside the vocabulary); unsupported (a model without a functional form).
LoraTuneResult tune_lora(const LoadedModel& model, std::span<const std::int32_t> text, const LoraTuneOptions& options);

}  // namespace rlx
