// Comparison of a model with the results of a reference implementation (goldens of tiny models, and
// of real ones).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/decoder.h"

namespace rlx {

/// What `rlx verify PATH` says of one model.
struct GoldenResult {
  std::string name;
  double diff = 0;  ///< largest |ours - theirs| / max(1, largest |theirs|) over all cases; finite
  double tolerance = 0;
  bool ok = false;
  std::int64_t native = 0, common = 0, reference = 0;  ///< nodes of the program by kind of kernel
  std::string
      why;  ///< the first case that failed, or why the model could not be run; empty when ok
};

struct GoldenOptions {
  DecoderOptions decoder;           ///< activations are set to float32
  std::optional<double> tolerance;  ///< instead of that of cases.json
};

/// Model folders with cases.json and cases.safetensors: the path itself, or the folders in it,
/// sorted. Errors (io): there is none.
std::vector<std::filesystem::path> golden_folders(const std::filesystem::path& path);

/// Compares every case X of cases.safetensors; which tensors it has depends on what the config says the model is. A
/// decoder: X.input_ids with X.logits (whole, in chunks, and step by step) or X.output_ids (greedy, up to the first of
/// X.margins below 1e-3). An encoder: X.input_ids and, when there are, X.attention_mask and X.token_type_ids, with
/// X.last_hidden_state: padding is left out before the run, and its rows are not compared. Images: X.pixel_values with
/// X.last_hidden_state. An encoder-decoder: X.input_ids and X.decoder_input_ids with X.encoder_last_hidden_state and
/// X.logits. Errors: io, format, unsupported (architecture), shape.
GoldenResult verify_golden(const std::filesystem::path& folder, const GoldenOptions& options);

/// Distance of next-token probabilities from a reference: KL(reference, ours) in nats over the
/// reference's most likely tokens plus the rest as one.
struct TextDistance {
  double mean_kl = 0, max_kl = 0;
  double top1 = 0;  ///< share of positions where the most likely token is the same
};
struct ChatMatch {
  std::optional<std::int64_t> first_mismatch;  ///< generated token, from 0
  std::optional<double> margin;                ///< of the reference there
  double least_margin = 0;                     ///< the smallest of the reference up to there
};
struct ReferenceResult {
  std::vector<TextDistance> texts;
  std::vector<ChatMatch> chats;
};

/// A real model against text.K.{ids, top_ids, top_logprobs} and chat.K.{prompt, greedy, margins} of
/// a safetensors file. End tokens do not end a chat. Errors: io, format, shape, device (logits that
/// are not finite).
ReferenceResult verify_reference(Decoder& decoder, const std::filesystem::path& reference);

}  // namespace rlx
