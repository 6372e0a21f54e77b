// WordPiece (https://arxiv.org/abs/1810.04805, google-research/bert): a word is cut into the longest pieces from its
// start on; pieces behind the first one are written with a prefix.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/vocab.h"

namespace rlx::tokenizer {

struct WordPieceOptions {
  std::string prefix = "##";      ///< of pieces that continue a word
  std::string unk = "[UNK]";      ///< stands for a whole word that the pieces do not make up
  std::size_t longest_word = 100;  ///< in characters; a longer word is unknown
};

class WordPiece {
 public:
  explicit WordPiece(WordPieceOptions options) : options_(std::move(options)) {}

  /// Appends the ids of a word (not empty, valid UTF-8). Errors: format (a word is unknown, and the vocabulary has no
  /// piece for that).
  void encode(const Vocab& vocab, std::string_view word, std::vector<std::int32_t>& ids) const;

 private:
  bool cut(const Vocab& vocab, std::string_view word, std::vector<std::int32_t>& ids) const;

  WordPieceOptions options_;
};

}  // namespace rlx::tokenizer
