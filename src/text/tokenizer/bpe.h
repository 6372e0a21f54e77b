// Byte-pair encoding of one word (https://arxiv.org/abs/1508.07909): the pair of lowest rank is
// merged first, the leftmost of equals, in O(n log n).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/vocab.h"

namespace rlx::tokenizer {

/// Merge table: a pair of ids to the rank of its rule and the id that it becomes. Open-addressed, a
/// key of 64 bits.
class MergeTable {
 public:
  struct Rule {
    std::uint32_t rank;
    std::int32_t id;
  };
  void reserve(std::size_t rules);
  /// A later rule for the same pair replaces the earlier one.
  void add(std::int32_t left, std::int32_t right, Rule rule);
  void prefetch(std::int32_t left, std::int32_t right) const;  ///< as Vocab::prefetch, for add
  /// nullptr when the pair has no rule.
  const Rule* find(std::int32_t left, std::int32_t right) const;

 private:
  static constexpr std::uint64_t kEmpty = ~0ull;
  struct Slot {
    std::uint64_t key = kEmpty;
    Rule rule{};
  };
  std::size_t home_of(std::uint64_t key) const;
  std::size_t slot_of(std::uint64_t key) const;

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

/// Options of the model, as tokenizer.json names them.
struct BpeOptions {
  bool ignore_merges = false;  ///< a word that is a token is that token
  bool byte_fallback =
      false;  ///< a character without token becomes its bytes' tokens, if all of them exist
  bool fuse_unk = false;  ///< neighbouring unknown characters are one unknown token
  std::optional<std::int32_t> unk;
  std::string continuing_prefix;  ///< before every character of a word but the first
  std::string end_suffix;         ///< after the last
};

class Bpe {
 public:
  Bpe(BpeOptions options, MergeTable merges)
      : options_(std::move(options)), merges_(std::move(merges)) {}

  /// Looks up what every word needs; after the vocabulary is complete.
  void prepare(const Vocab& vocab);

  /// Appends the ids of `word` (not empty, valid UTF-8).
  void encode(const Vocab& vocab, std::string_view word, std::vector<std::int32_t>& ids) const;

 private:
  void initial(const Vocab& vocab, std::string_view word, std::vector<std::int32_t>& ids) const;
  std::int32_t id_of_char(const Vocab& vocab, std::string_view c, bool first, bool last) const;
  bool byte_ids(const Vocab& vocab, std::string_view c, bool first, bool last,
                std::vector<std::int32_t>& ids) const;
  void merge_short(std::vector<std::int32_t>& ids, std::size_t begin) const;
  void merge_long(std::vector<std::int32_t>& ids, std::size_t begin) const;

  BpeOptions options_;
  MergeTable merges_;
  std::array<std::int32_t, 512>
      char_ids_{};  ///< of the first code points, where no prefix or suffix is added
};

/// The token of a byte in a byte-fallback vocabulary, "<0x0A>": two upper-case digits and nothing
/// else.
std::string byte_token(unsigned char byte);
/// The byte that a token of that form stands for (digits of either case); -1: not of that form.
int byte_of_token(std::string_view token);

}  // namespace rlx::tokenizer
