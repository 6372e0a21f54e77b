// Little-endian bytes of files that this library writes for itself, and their checked reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/hash.h"

namespace rlx {

/// Appends to a growing string of bytes.
class ByteWriter {
 public:
  template <typename T>
  void number(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i)
      bytes_ += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
  }
  void text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    bytes_ += value;
  }
  void digest(const Digest& value) {
    number(value.low);
    number(value.high);
  }
  void append(std::string_view bytes) { bytes_ += bytes; }
  void zeros(std::size_t count) { bytes_.append(count, '\0'); }

  std::size_t size() const { return bytes_.size(); }
  const std::string& bytes() const { return bytes_; }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads what ByteWriter wrote. Every Error(format) has the form "NAME: offset N: reason".
class ByteCursor {
 public:
  ByteCursor(std::string_view bytes, std::string_view name) : bytes_(bytes), name_(name) {}

  template <typename T>
  T number(std::string_view field) {
    need(sizeof(T), field);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      value |= std::uint64_t{static_cast<unsigned char>(bytes_[at_ + i])} << (8 * i);
    at_ += sizeof(T);
    return static_cast<T>(value);
  }
  /// A view into the bytes, at most `most` long.
  std::string_view text(std::string_view field, std::size_t most = 4096) {
    const auto size = number<std::uint32_t>(field);
    if (size > most) fail("{}: {} bytes, expected at most {}", field, size, most);
    return take(size, field);
  }
  Digest digest(std::string_view field) {
    const auto low = number<std::uint64_t>(field);
    return {low, number<std::uint64_t>(field)};
  }
  std::string_view take(std::size_t size, std::string_view field) {
    need(size, field);
    const std::string_view taken = bytes_.substr(at_, size);
    at_ += size;
    return taken;
  }
  /// A count of items of at least `item_bytes` each, so that no count asks for more than the file could hold.
  std::size_t count(std::string_view field, std::size_t item_bytes) {
    const auto n = number<std::uint32_t>(field);
    if (n > left() / item_bytes) fail("{}: {} items, but {} bytes are left", field, n, left());
    return n;
  }
  /// A number below `end`.
  std::int32_t index(std::string_view field, std::size_t end) {
    const auto i = number<std::int32_t>(field);
    if (i < 0 || static_cast<std::size_t>(i) >= end) fail("{}: {}, expected 0 to {}", field, i, std::int64_t(end) - 1);
    return i;
  }
  bool boolean(std::string_view field) { return index_u8(field, 2) != 0; }
  /// A byte below `end`: the place of an enumeration's value.
  std::uint8_t index_u8(std::string_view field, std::size_t end) {
    const auto i = number<std::uint8_t>(field);
    if (i >= end) fail("{}: {}, expected 0 to {}", field, i, end - 1);
    return i;
  }
  std::int64_t size(std::string_view field, std::int64_t least, std::int64_t most) {
    const auto n = number<std::int64_t>(field);
    if (n < least || n > most) fail("{}: {}, expected {} to {}", field, n, least, most);
    return n;
  }
  void end() {
    if (left() != 0) fail("{} bytes follow the end", left());
  }

  std::size_t left() const { return bytes_.size() - at_; }
  std::size_t offset() const { return at_; }

  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> reason, Args&&... args) const {
    fail_text(fmt::vformat(reason, fmt::make_format_args(args...)));
  }

 private:
  [[noreturn]] void fail_text(const std::string& reason) const {
    rlx::fail(ErrorCode::format, "{}: offset {}: {}", name_, at_, reason);
  }
  void need(std::size_t size, std::string_view field) const {
    if (size > left()) fail("{}: expected {} bytes, found {}", field, size, left());
  }

  std::string_view bytes_, name_;
  std::size_t at_ = 0;
};

}  // namespace rlx
