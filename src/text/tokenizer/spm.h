// SentencePiece's BPE (https://github.com/google/sentencepiece, bpe_model): of all neighbours whose
// joined text is a piece, the pair of the highest score is joined first, the leftmost of equals.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/tokenizer/vocab.h"

namespace rlx::tokenizer {

class Spm {
 public:
  /// `scores` has a value for every id of the vocabulary; `bytes` the ids of the 256 byte pieces,
  /// -1 where there is none.
  Spm(std::vector<float> scores, std::array<std::int32_t, 256> bytes,
      std::optional<std::int32_t> unk);

  /// Appends the ids of `text` (not empty, valid UTF-8). A character that is no piece becomes its
  /// bytes' pieces if all of them exist, else the unknown piece, one for a run of them.
  void encode(const Vocab& vocab, std::string_view text, std::vector<std::int32_t>& ids) const;

 private:
  bool byte_ids(std::string_view c, std::vector<std::int32_t>& ids) const;

  std::vector<float> scores_;
  std::array<std::int32_t, 256> bytes_;
  std::optional<std::int32_t> unk_;
};

}  // namespace rlx::tokenizer
