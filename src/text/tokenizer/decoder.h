// From token texts back to text (https://huggingface.co/docs/tokenizers/api/decoders), as a chain
// that takes tokens one by one: whole texts and streams are decoded by the same code, so they
// cannot differ.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/tokenizer/pre_tokenizer.h"

namespace rlx::tokenizer {

/// Byte characters back to bytes, bytes to text.
struct ByteLevelDecode {};
/// The mark becomes a space, in the first token nothing (unless `keep_first`).
struct MetaspaceDecode {
  std::string mark;
  bool keep_first;
};
struct ReplaceDecode {
  TextPattern pattern;
  std::string content;
};
/// Runs of tokens "<0xE2>" become the text of their bytes, or, when the run is not UTF-8, one
/// U+FFFD for each byte.
struct ByteFallbackDecode {};
/// All tokens become one.
struct FuseDecode {};
/// Up to `start` and `stop` times `content` (one character) goes from the ends of every token.
struct StripDecode {
  std::string content;
  std::size_t start, stop;
};
/// The end-of-word suffix becomes a space, at the end of the text nothing.
struct SuffixDecode {
  std::string suffix;
};
/// A token with the prefix continues the word before; the others have a space in front. `cleanup`: none before
/// punctuation and within contractions.
struct WordPieceDecode {
  std::string prefix;
  bool cleanup;
};
/// Without a decoder, tokens are written with spaces between.
struct JoinDecode {};

using DecodeStep = std::variant<ByteLevelDecode, MetaspaceDecode, ReplaceDecode, ByteFallbackDecode,
                                FuseDecode, StripDecode, SuffixDecode, JoinDecode, WordPieceDecode>;

/// The state of one decoding. Tokens and results are valid UTF-8.
class DecodeChain {
 public:
  /// `steps` must outlive the chain.
  explicit DecodeChain(const std::vector<DecodeStep>& steps);
  ~DecodeChain();

  /// Appends the text that is certain once this token is known.
  void push(std::string_view token, std::string& out);
  /// Appends the rest; the chain is then as new.
  void finish(std::string& out);

  class Stage;

 private:
  void start();

  const std::vector<DecodeStep>* steps_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::string* out_ = nullptr;  ///< where the last stage writes during a call
};

}  // namespace rlx::tokenizer
