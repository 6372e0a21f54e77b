// The token table: id to text and text to id.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rlx::tokenizer {

/// What a token may be made by.
enum class TokenKind : std::uint8_t {
  missing,  ///< a gap in the ids
  model,    ///< the model's own piece
  added,    ///< found in the text before the model sees it, or by nothing at all (control and byte
            ///< pieces)
};

/// Ids are dense but for gaps; the text lies in one buffer and the index is one open-addressed
/// table, so that 150,000 tokens are read in some milliseconds.
class Vocab {
 public:
  /// Room for `tokens` entries of together `bytes` text.
  void reserve(std::size_t tokens, std::size_t bytes);

  /// Adds a token; a later token of the same text takes the text over. `id` must be below
  /// max_id(entries in the file), which the caller checks. Errors: format (an id given twice),
  /// limit (text above 4 GiB in all).
  void add(std::int32_t id, std::string_view text, TokenKind kind);

  std::int32_t size() const { return static_cast<std::int32_t>(entries_.size()); }
  std::size_t count() const { return count_; }  ///< tokens without the gaps

  bool has(std::int32_t id) const {
    return id >= 0 && id < size() && entry(id).kind != TokenKind::missing;
  }
  /// Text of a token that exists.
  std::string_view text(std::int32_t id) const { return view(entry(id)); }
  TokenKind kind(std::int32_t id) const { return entry(id).kind; }

  std::optional<std::int32_t> find(std::string_view text) const;
  /// Starts to fetch the part of the table where `text` belongs. Looking up or adding many texts in
  /// blocks, this first, hides the memory's latency, which is most of the time of reading a large
  /// vocabulary.
  void prefetch(std::string_view text) const;
  /// The same, but only a piece of the model; -1 when there is none.
  std::int32_t find_model(std::string_view text) const;
  /// As find_model, but looks at `hint` first: results of merges mostly have ids in the order of
  /// the merges, and a look at the next one costs no cache miss.
  std::int32_t find_model_near(std::string_view text, std::int32_t hint) const;
  std::size_t longest() const { return longest_; }  ///< bytes of the longest text

 private:
  struct Entry {
    std::uint32_t begin = 0, length = 0;
    TokenKind kind = TokenKind::missing;
  };
  /// Holds the place of the text too: a look-up touches a slot and a text, not the entry between.
  struct Slot {
    std::uint32_t tag = 0;  ///< high half of the hash, so that most misses touch one line
    std::int32_t id = -1;
    std::uint32_t begin = 0, length = 0;
  };

  const Entry& entry(std::int32_t id) const { return entries_[static_cast<std::size_t>(id)]; }
  std::string_view view(const auto& e) const { return {text_.data() + e.begin, e.length}; }
  std::size_t slot_of(std::string_view text, std::uint64_t hash) const;
  void grow(std::size_t slots);

  std::string text_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;
  std::size_t count_ = 0, used_ = 0, longest_ = 0;
};

/// Ids of a file with `entries` tokens lie below this; a larger one is a fault of the file, not a
/// reason to allocate.
constexpr std::int64_t max_id(std::size_t entries) {
  return static_cast<std::int64_t>(entries) * 16 + 65536;
}

}  // namespace rlx::tokenizer
