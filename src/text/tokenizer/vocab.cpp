#include "text/tokenizer/vocab.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/error.h"
#include "base/hash.h"
#include "formats/byte_reader.h"

namespace rlx::tokenizer {

void Vocab::reserve(std::size_t tokens, std::size_t bytes) {
  entries_.reserve(tokens);
  text_.reserve(bytes);
  grow(std::bit_ceil(tokens * 2 + 16));
}

void Vocab::grow(std::size_t slots) {
  if (slots <= slots_.size()) return;
  std::vector<Slot> old(slots);
  old.swap(slots_);
  for (const Slot& s : old) {
    if (s.id < 0) continue;
    const std::string_view t = text(s.id);
    slots_[slot_of(t, hash64(t))] = s;
  }
}

std::size_t Vocab::slot_of(std::string_view text, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  std::size_t at = hash & mask;
  while (slots_[at].id >= 0 && (slots_[at].tag != tag || view(slots_[at]) != text))
    at = (at + 1) & mask;
  return at;
}

void Vocab::add(std::int32_t id, std::string_view text, TokenKind kind) {
  RLX_CHECK(id >= 0, "negative token id");
  if (text_.size() + text.size() > std::numeric_limits<std::uint32_t>::max()) {
    fail(ErrorCode::limit, "the text of the vocabulary is longer than 4 GiB");
  }
  if (static_cast<std::size_t>(id) >= entries_.size())
    entries_.resize(static_cast<std::size_t>(id) + 1);
  if ((used_ + 1) * 2 > slots_.size()) grow(std::bit_ceil(used_ * 4 + 16));
  Entry& e = entries_[static_cast<std::size_t>(id)];
  if (e.kind != TokenKind::missing) {
    fail(ErrorCode::format, "token id {} is given to two texts, {} and {}", id, quote(view(e)),
         quote(text));
  }
  ++count_;
  e = {static_cast<std::uint32_t>(text_.size()), static_cast<std::uint32_t>(text.size()), kind};
  text_ += text;
  longest_ = std::max(longest_, text.size());
  const std::uint64_t hash = hash64(text);
  Slot& slot = slots_[slot_of(text, hash)];
  if (slot.id < 0) ++used_;
  slot = {static_cast<std::uint32_t>(hash >> 32), id, e.begin, e.length};
}

void Vocab::prefetch(std::string_view text) const {
  if (!slots_.empty()) __builtin_prefetch(&slots_[hash64(text) & (slots_.size() - 1)]);
}

std::optional<std::int32_t> Vocab::find(std::string_view text) const {
  if (slots_.empty()) return std::nullopt;
  const std::int32_t id = slots_[slot_of(text, hash64(text))].id;
  return id < 0 ? std::nullopt : std::optional(id);
}

std::int32_t Vocab::find_model(std::string_view text) const {
  if (slots_.empty()) return -1;
  const std::int32_t id = slots_[slot_of(text, hash64(text))].id;
  return id >= 0 && kind(id) == TokenKind::model ? id : -1;
}

std::int32_t Vocab::find_model_near(std::string_view text, std::int32_t hint) const {
  const bool unique = used_ == count_;  // else another id may own the same text
  if (unique && has(hint) && kind(hint) == TokenKind::model && this->text(hint) == text)
    return hint;
  return find_model(text);
}

}  // namespace rlx::tokenizer
