// The canonical serialisation behind every key: tagged fields, each with its name and its length,
// so that no two contents give the same bytes.
#pragma once

#include <algorithm>
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
    bytes_.reserve(512);  // an executable's key; one allocation instead of five
    integer("schema", schema);
    text("kind", kind);
  }

  KeyWriter& text(std::string_view field, std::string_view value) {
    head('t', field);
    size(value.size());
    bytes_.append(value);
    return *this;
  }
  KeyWriter& integer(std::string_view field, std::int64_t value) {
    head('i', field);
    word(static_cast<std::uint64_t>(value));
    return *this;
  }
  KeyWriter& boolean(std::string_view field, bool value) {
    head(value ? 'y' : 'n', field);
    return *this;
  }
  /// Both zeros are one value, and so is every NaN.
  KeyWriter& real(std::string_view field, double value) {
    if (value == 0) value = 0;
    if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
    head('r', field);
    word(std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  KeyWriter& digest(std::string_view field, const Digest& value) {
    head('d', field);
    word(value.low);
    word(value.high);
    return *this;
  }
  /// An optional field without a value: differs from every value that it may have.
  KeyWriter& absent(std::string_view field) {
    head('a', field);
    return *this;
  }
  /// `count` items follow, written by the caller with the same number of fields each.
  KeyWriter& list(std::string_view field, std::size_t count) {
    head('l', field);
    size(count);
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

  const std::string& bytes() const { return bytes_; }
  Digest finish() const { return rlx::digest(std::string_view(bytes_)); }

 private:
  void head(char tag, std::string_view field) {
    bytes_.push_back(tag);
    size(field.size());
    bytes_.append(field);
  }
  void size(std::size_t value) { word(value); }
  void word(std::uint64_t value) {
    char out[8];
    for (int i = 0; i < 8; ++i) out[i] = static_cast<char>(value >> (8 * i));
    bytes_.append(out, 8);
  }

  std::string bytes_;
};

}  // namespace rlx
