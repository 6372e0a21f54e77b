// What a tokenizer is made of; built by from_json.cpp and from_gguf.cpp, read by tokenizer.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/spm.h"
#include "text/tokenizer/vocab.h"
#include "text/tokenizer/wordpiece.h"

namespace rlx::tokenizer {

/// The order of work for an encoding:
///   raw text -> added tokens (not normalised) -> normalizer -> added tokens (normalised) ->
///   pre-tokenizer -> model
///   -> post-processor.
struct Data {
  std::string origin;  ///< the file, for messages
  Vocab vocab;
  std::vector<bool> special;  ///< by id

  std::vector<AddedToken> added;
  TokenMatcher raw;  ///< added tokens that are looked for in the raw text
  TokenMatcher
      raw_special;  ///< these and all special tokens: for text that is trusted only in parts
  TokenMatcher
      normalized;  ///< added tokens that are looked for in the normalised text, as normalised

  std::vector<NormalizeStep> normalizer;
  std::vector<PreStep> pre_tokenizer;
  std::variant<std::monostate, Bpe, Spm, WordPiece> model;

  /// The result of the post-processor: ids, and kSequence where the text's own ids go.
  static constexpr std::int32_t kSequence = -1;
  std::vector<std::int32_t> post = {kSequence};

  std::vector<DecodeStep> decoder;
  std::optional<std::int32_t> bos, eos, eot;

  /// Decoding writes an added token that is looked for in normalised text in its normalised form,
  /// as the reference does
  /// ("\u2581<tool>" where the normalizer puts a mark in front). By id; only those that differ.
  std::map<std::int32_t, std::string> decoded_as;

  /// Fills what follows from the other members: the matchers, `special`, the model's tables.
  void complete();
};

}  // namespace rlx::tokenizer
