// From a path to a built model: a GGUF file, or a folder in the hub's layout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "flow/built_model.h"
#include "formats/gguf.h"
#include "models/config.h"
#include "models/hints.h"

namespace rlx {

struct BuildOptions {
  std::int64_t context = 0;  ///< tokens that the session holds (dynamic and longrope scalings
                             ///< depend on it); 0: the model's own
  DecodeForm form = DecodeForm::state;  ///< of a decoder with attention (flow/built_model.h)
  std::filesystem::path lora;  ///< an adapter beside the products (models/lora.h); empty: none
};

struct LoadedModel {
  BuiltModel model;      ///< of a seq2seq model: its encoder
  BuiltModel decoder;    ///< of a seq2seq model: the decoder that attends to the encoder's rows; else without nodes
  DecoderConfig config;  ///< of a model that generates by itself (ModelKind::decoder)
  ModelHints hints;
  std::filesystem::path path;            ///< as it was given
  std::shared_ptr<const GgufFile> gguf;  ///< the file, with its tokenizer; nullptr for a folder
  std::filesystem::path tokenizer_json;  ///< of a folder: tokenizer.json; empty when there is none
  std::filesystem::path
      tokenizer_config;       ///< of a folder: tokenizer_config.json; empty when there is none
  std::string chat_template;  ///< Jinja text; empty when there is none
};

/// Reads, validates and builds; weights stay in the mapped files. MODEL is a GGUF file, or a folder
/// with config.json and model.safetensors (or its index and shards), and beside them
/// tokenizer.json, tokenizer_config.json, generation_config.json, chat_template.jinja. Errors: io
/// (no such path, a file that is missing or cannot be read); format (a foreign or damaged file, a
/// value out of range, with file and key); unsupported (architecture, element type; another form than `state` of a
/// model without past keys and values); shape (tensors that are missing or of another shape).
LoadedModel load_model(const std::filesystem::path& path, const BuildOptions& options = {});

/// Error(unsupported) that says what the model is instead, unless it is a decoder in state form: for what continues a
/// text.
void require_decoder(const LoadedModel& loaded);

/// The same over files in memory, for tests and fuzzing.
LoadedModel load_model(std::shared_ptr<const GgufFile> file, bool in_memory,
                       const BuildOptions& options = {});

}  // namespace rlx
