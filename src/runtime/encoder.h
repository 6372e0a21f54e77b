// Models beside decoders, ready to run: encoders of tokens, encoders of images, encoder-decoders. One template per
// graph and one executable per bucket of sizes, by ModelCompilePipeline; batches are rows without padding. A large
// batch runs in steps of whole sequences or images, about 512 rows each; no bit depends on that.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "compiler/dispatch.h"
#include "models/load.h"
#include "runtime/model_pipeline.h"
#include "tensor/tensor.h"

namespace rlx {

struct EncoderOptions {
  Device device = Device::cpu();
  int threads = 0;            ///< 0: RLX_THREADS, else the physical cores that this process may use
  std::int64_t entries = 64;  ///< executables that are kept, the least recently used go first
  CompileOptions compile;
};

/// One sequence of a batch.
struct TokenSequence {
  std::span<const std::int32_t> tokens;       ///< 1 or more
  std::span<const std::int32_t> token_types;  ///< of the segment embedding; empty: all 0, else one per token
};

/// The rows of a batch, one sequence (or image) after the other.
struct HiddenRows {
  Tensor rows;                       ///< f32[rows, hidden]
  std::vector<std::int32_t> starts;  ///< [batch + 1]: where sequences begin
  std::optional<Tensor> pooled;      ///< f32[batch, hidden], when the model has a pooler

  std::int64_t batch() const { return static_cast<std::int64_t>(starts.size()) - 1; }
  /// The rows of a sequence, [tokens, hidden].
  std::span<const float> sequence(std::int64_t i) const;
};

class EncoderModel {
 public:
  /// Compiles the templates. Errors: unsupported (a decoder: rlx::Decoder runs those), device, as compile().
  EncoderModel(LoadedModel model, const EncoderOptions& options = {});
  EncoderModel(EncoderModel&&) noexcept;
  ~EncoderModel();

  const ModelInfo& info() const;
  const LoadedModel& model() const;
  const EncoderOptions& options() const;  ///< with the threads resolved
  int threads() const;

  /// Hidden rows of token sequences (encoder and seq2seq models). Errors: unsupported (an image model),
  /// invalid_argument (no sequence, an empty one, an id or type outside the vocabulary), limit (more tokens than the
  /// model has positions).
  HiddenRows run(std::span<const TokenSequence> batch);
  /// Hidden rows of images, f32[batch, channels, height, width] of the model's sizes (info(); 0: any, an executable for
  /// each). Errors: unsupported (not an image model), shape, limit (too many rows).
  HiddenRows run_images(const Tensor& pixels);

  /// Which rows of the targets want logits.
  enum class Wanted : std::uint8_t { all, last };
  /// Logits of the decoder of a seq2seq model: targets[i] (which begins with info().start_token) given the rows of
  /// source sequence i. f32[wanted rows, vocab]. Errors: unsupported (a model without decoder), invalid_argument
  /// (another number of targets than sources, an id outside the vocabulary), shape (rows that are not such a model's).
  Tensor decode(const HiddenRows& source, std::span<const TokenSequence> targets, Wanted wanted = Wanted::all);
  /// The most likely target of a source, token by token, up to an end token (not part of the result) or `max_tokens`.
  /// The decoder is in functional form: each step runs over all tokens so far. Errors as run and decode.
  std::vector<std::int32_t> generate(std::span<const std::int32_t> source, std::int64_t max_tokens);

  /// Of the encoder, and of the decoder of a seq2seq model (else empty).
  const DispatchReport& dispatch() const;
  const DispatchReport& decoder_dispatch() const;
  PipelineStatistics statistics() const;

  /// What the last run of the encoder had to read and compute; nothing before the first one.
  StepWork work() const;
  /// Time by kernel since `set_profile(true)`, longest first.
  void set_profile(bool on);
  std::vector<KernelTime> profile() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rlx
