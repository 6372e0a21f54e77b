#include "text/tokenizer/wordpiece.h"

#include <algorithm>

#include "base/error.h"
#include "text/tokenizer/utf8.h"

namespace rlx::tokenizer {

bool WordPiece::cut(const Vocab& vocab, std::string_view word, std::vector<std::int32_t>& ids) const {
  std::string piece;
  for (std::size_t begin = 0; begin < word.size();) {
    piece = begin > 0 ? options_.prefix : std::string();
    const std::size_t head = piece.size();
    // No piece is longer than the vocabulary's longest: a word of any length costs no more than that for each piece.
    const std::size_t room = vocab.longest() > head ? vocab.longest() - head : 0;
    piece += word.substr(begin, room);
    std::int32_t id = -1;
    while (piece.size() > head && (id = vocab.find_model(piece)) < 0) {
      do piece.pop_back();
      while (piece.size() > head && (static_cast<unsigned char>(word[begin + piece.size() - head]) & 0xC0) == 0x80);
    }
    if (id < 0) return false;
    ids.push_back(id);
    begin += piece.size() - head;
  }
  return true;
}

void WordPiece::encode(const Vocab& vocab, std::string_view word, std::vector<std::int32_t>& ids) const {
  const auto characters = static_cast<std::size_t>(std::count_if(
      word.begin(), word.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
  const std::size_t before = ids.size();
  if (characters <= options_.longest_word && cut(vocab, word, ids)) return;
  ids.resize(before);
  const std::optional<std::int32_t> unk = vocab.find(options_.unk);
  if (!unk)
    fail(ErrorCode::format, "a word is made of no pieces, and the vocabulary has no unk_token \"{}\"", options_.unk);
  ids.push_back(*unk);
}

}  // namespace rlx::tokenizer
