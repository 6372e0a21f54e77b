// How a model wants its hidden rows to become the embedding of a text: the files of sentence-transformers beside a
// checkpoint (https://www.sbert.net/docs/package_reference/sentence_transformer/models.html), or a key of a GGUF file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/load.h"

namespace rlx {

/// What one value is made of, over the rows of a text. cls: the first row. mean_sqrt: the sum over the root of the
/// number of rows. weighted: the mean with weights 1, 2, 3, ... last: the last row.
enum class Pooling : std::uint8_t { cls, max, mean, mean_sqrt, weighted, last };

struct EmbedConfig {
  std::vector<Pooling> pooling = {Pooling::mean};  ///< several: one after the other in the embedding
  bool normalize = true;                           ///< to length 1
  std::int64_t max_tokens = 0;                     ///< longer texts are cut, their special tokens kept; 0: no limit
  bool lowercase = false;                          ///< of the text, before it is tokenized
  std::string prompt;                              ///< stands before every text
  bool pool_prompt = true;                         ///< whether its rows are pooled too
};

/// "mean", "cls", "max" or "last". Error(usage) that lists them.
Pooling pooling_named(std::string_view text);

/// Of a model folder: modules.json with the config of its Pooling module and a Normalize module, else
/// 1_Pooling/config.json; sentence_bert_config.json (max_seq_length, do_lower_case); config_sentence_transformers.json
/// (the default prompt); tokenizer_config.json (model_max_length). Of a GGUF file: ARCH.pooling_type. What none of them
/// says is the mean of all rows, normalised, of as many tokens as the model has positions. `chosen` replaces the
/// pooling of the files. Errors: io; format (file, key, expected and found); unsupported (a module or a pooling that is
/// not one of these).
EmbedConfig read_embed_config(const LoadedModel& model, std::optional<Pooling> chosen = {});

}  // namespace rlx
