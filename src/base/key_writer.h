// The canonical serialisation behind every key: tagged fields, each with its name and its length,
// so that no two contents give the same bytes.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace rlx {

/// Version of what keys are made of. Stands first in every key, so a bump changes them all: raise
/// it when a field's meaning changes in a way that its bytes do not show.
inline constexpr std::uint32_t kKeySchema = 1;

/// Collects the fields of a key. A field is {tag, length and bytes of its name, value}; text values
/// carry their length, a list its count, and an absent value a tag of its own. Integers are written
/// in little-endian order, so that a key is the same on every machine.
class KeyWriter {
 public:
  /// `kind` says what the key is of ("variant"): keys of different kinds never meet.
  explicit KeyWriter(std::string_view kind, std::uint32_t schema = kKeySchema) {
    integer("schema", schema);
    text("kind", kind);
  }

  KeyWriter& text(std::string_view field, std::string_view value) {
    char* at = head('t', field, 8 + value.size());
    copy(word(at, value.size()), value);
    return *this;
  }
  KeyWriter& integer(std::string_view field, std::int64_t value) {
    word(head('i', field, 8), static_cast<std::uint64_t>(value));
    return *this;
  }
  KeyWriter& boolean(std::string_view field, bool value) {
    head(value ? 'y' : 'n', field, 0);
    return *this;
  }
  /// Both zeros are one value, and so is every NaN.
  KeyWriter& real(std::string_view field, double value) {
    if (value == 0) value = 0;
    if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
    word(head('r', field, 8), std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  KeyWriter& digest(std::string_view field, const Digest& value) {
    word(word(head('d', field, 16), value.low), value.high);
    return *this;
  }
  /// An optional field without a value: differs from every value that it may have.
  KeyWriter& absent(std::string_view field) {
    head('a', field, 0);
    return *this;
  }
  /// `count` items follow, written by the caller with the same number of fields each.
  KeyWriter& list(std::string_view field, std::size_t count) {
    word(head('l', field, 8), count);
    return *this;
  }
  /// Names whose order and repetition mean nothing.
  KeyWriter& set(std::string_view field, std::span<const std::string> names) {
    std::vector<std::string_view> sorted(names.begin(), names.end());
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    list(field, sorted.size());
    for (const std::string_view name : sorted) text("name", name);
    return *this;
  }

  std::string_view bytes() const { return {data(), used_}; }
  Digest finish() const { return rlx::digest(bytes()); }

 private:
  char* data() { return more_.empty() ? first_.data() : more_.data(); }
  const char* data() const { return more_.empty() ? first_.data() : more_.data(); }

  /// Writes tag and name and makes room for `value` bytes behind them.
  char* head(char tag, std::string_view field, std::size_t value) {
    const std::size_t need = used_ + 9 + field.size() + value;
    const std::size_t have = more_.empty() ? first_.size() : more_.size();
    if (need > have) {
      const bool from_first = more_.empty();
      more_.resize(std::max(need, 2 * have));
      if (from_first) std::copy_n(first_.data(), used_, more_.data());
    }
    char* at = data() + used_;
    used_ = need;
    *at++ = tag;
    return copy(word(at, field.size()), field);
  }
  static char* copy(char* at, std::string_view text) {
    return std::copy(text.begin(), text.end(), at);
  }
  static char* word(char* at, std::uint64_t value) {
    for (int i = 0; i < 8; ++i) *at++ = static_cast<char>(value >> (8 * i));
    return at;
  }

  // A key is made at every look-up, in less than a microsecond: 1 KiB holds an executable's key
  // without an allocation.
  std::array<char, 1024> first_{};
  std::vector<char> more_;  ///< everything, once first_ is too small
  std::size_t used_ = 0;
};

}  // namespace rlx
