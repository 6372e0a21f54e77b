// A decoder with its words: tokenizer, end tokens and chat template. What run, chat and the server
// start from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/decoder.h"
#include "text/template/chat.h"
#include "text/tokenizer/tokenizer.h"

namespace rlx {

/// The tokenizer of a GGUF file (a vocabulary alone, too), a model folder, or a tokenizer.json.
/// Errors: io, format, unsupported.
Tokenizer load_tokenizer(const std::filesystem::path& path);
/// The same of a model. Errors: io (a folder without tokenizer.json), format, unsupported.
Tokenizer tokenizer_of(const LoadedModel& model);

/// Whether a path is meant as a GGUF file: a regular file that begins with its magic. False for
/// what is not there.
bool is_gguf(const std::filesystem::path& path);

class TextModel {
 public:
  /// Reads, compiles and packs. `path`: a model, or a file of write_artefact. Errors: as load_model, Decoder,
  /// load_tokenizer and resolve_artefact.
  TextModel(const std::filesystem::path& path, const DecoderOptions& options);

  Decoder& decoder() { return *decoder_; }
  const Decoder& decoder() const { return *decoder_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  /// Tokens that end a text: those of the checkpoint and of its vocabulary.
  std::span<const std::int32_t> ends() const { return ends_; }
  /// Error(unsupported) when the model has no chat template.
  const ChatTemplate& chat() const;
  bool has_chat() const { return chat_.has_value(); }
  double load_ms() const {
    return load_ms_;
  }  ///< the whole load: file, compiler, packing, tokenizer

  /// The prompt of a conversation. User text never becomes a special token; the beginning token
  /// stands there exactly once when the tokenizer's rule adds one, whether the template writes it
  /// or not (faults.md, C08).
  std::vector<std::int32_t> chat_prompt(const Json& messages, const Json& tools,
                                        const Json& arguments) const;

 private:
  struct Start {
    std::int64_t ns;  ///< when the load began
    LoadedModel model;
    DecoderOptions options;  ///< with the compiled file that the path may be
  };
  static Start start_of(const std::filesystem::path& path, DecoderOptions options);
  explicit TextModel(Start start);

  std::unique_ptr<Decoder> decoder_;
  Tokenizer tokenizer_;
  std::optional<ChatTemplate> chat_;
  std::vector<std::int32_t> ends_;
  double load_ms_ = 0;
};

}  // namespace rlx
