// Texts to vectors: an encoder, its tokenizer, and the pooling that its files ask for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/embed_config.h"
#include "runtime/encoder.h"
#include "text/tokenizer/tokenizer.h"

namespace rlx {

struct EmbedOptions {
  EncoderOptions encoder;
  std::optional<Pooling> pooling;  ///< instead of the model's
  std::optional<bool> normalize;   ///< instead of the model's
  std::int64_t rows = 2048;        ///< tokens that one run takes at most, a longer text alone
};

using TextVector = std::vector<float>;

class Embedder {
 public:
  /// Compiles. Errors: as EncoderModel and read_embed_config; io (a folder without tokenizer.json); format, unsupported
  /// (its tokenizer); unsupported (a model of images).
  explicit Embedder(LoadedModel model, const EmbedOptions& options = {});

  const ModelInfo& info() const { return model_.info(); }
  const EmbedConfig& config() const { return config_; }
  /// Values of an embedding.
  std::int64_t size() const;

  /// The ids that a text becomes: behind the model's prompt, with special tokens, cut to max_tokens. Errors:
  /// invalid_argument (no token at all); format (a limit without room for the special tokens); as Tokenizer::encode.
  std::vector<std::int32_t> tokens(std::string_view text) const;

  /// One embedding a text, in order; a text has the same in any company. Errors: as `tokens`, the text named by its
  /// place; format (a result that is not finite).
  std::vector<TextVector> embed(std::span<const std::string> texts);
  /// The same of tokens. Errors: as EncoderModel::run; format.
  std::vector<TextVector> embed_tokens(std::span<const std::vector<std::int32_t>> ids);

 private:
  TextVector pool(std::span<const float> rows) const;
  std::int64_t prompt_tokens() const;

  EmbedConfig config_;
  Tokenizer tokenizer_;
  std::int64_t most_rows_ = 0;
  std::int64_t skipped_ = 0;  ///< rows of the prompt that are not pooled
  EncoderModel model_;
};

}  // namespace rlx
