// The pre-tokenizers that GGUF files name in tokenizer.ggml.pre
// (https://github.com/ggml-org/llama.cpp/blob/master/convert_hf_to_gguf_update.py lists the names
// and their models).
#pragma once

#include <span>
#include <string_view>

namespace rlx::tokenizer {

struct PreRule {
  std::span<const char* const> patterns;  ///< each isolates its matches in what the one before left
  bool ignore_merges = false;             ///< a word that is a token is that token
  bool adds_bos = false;                  ///< unless the file says otherwise
  bool nfc = false;                       ///< the model's own tokenizer normalises
};

/// Errors: unsupported (the name is not in the table).
PreRule find_pre_rule(std::string_view name);

}  // namespace rlx::tokenizer
