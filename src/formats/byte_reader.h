// A cursor over the bytes of a file for binary formats: every read is checked against what remains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace rlx {

/// Text from a file, fit for a message: quoted, at most 80 characters, everything but printable
/// ASCII escaped.
inline std::string quote(std::string_view text, std::size_t limit = 80) {
  std::string out = "'";
  for (const char c : text.substr(0, limit)) {
    if (c >= 0x20 && c < 0x7f)
      out += c;
    else if (c == '\n')
      out += "\\n";
    else
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  if (text.size() > limit) out += "...";
  return out += '\'';
}

/// Throws Error with the form that all messages about a file's content have: "file: offset N:
/// reason".
template <typename... Args>
[[noreturn]] void fail_at(ErrorCode code, std::string_view file, std::uint64_t offset,
                          fmt::format_string<Args...> text, Args&&... args) {
  fail(code, "{}: offset {}: {}", file, offset, fmt::vformat(text, fmt::make_format_args(args...)));
}

/// Little-endian cursor. `field` arguments name what is read, for the message when the file ends
/// before it does.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string_view file)
      : bytes_(bytes), file_(file) {}

  std::size_t offset() const { return offset_; }
  std::size_t left() const { return bytes_.size() - offset_; }

  /// What the following fields belong to ("key", "tensor" and its name); part of messages.
  void set_owner(std::string_view kind, std::string_view owner_name) {
    kind_ = kind;
    name_ = owner_name;
  }

  /// Error at `offset`: the owner's name stands before the reason.
  template <typename... Args>
  [[noreturn]] void fail(ErrorCode code, std::uint64_t offset, fmt::format_string<Args...> text,
                         Args&&... args) const {
    const std::string owner =
        kind_.empty() ? std::string() : fmt::format("{} {}: ", kind_, quote(name_));
    fail_at(code, file_, offset, "{}{}", owner, fmt::vformat(text, fmt::make_format_args(args...)));
  }

  template <typename T>
  T number(std::string_view field) {
    if (left() < sizeof(T)) too_short(field, sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

  std::span<const std::byte> take(std::uint64_t size, std::string_view field) {
    if (size > left()) too_short(field, size);
    const auto taken = bytes_.subspan(offset_, static_cast<std::size_t>(size));
    offset_ += taken.size();
    return taken;
  }

  /// A string: 64-bit length, then the bytes. The view lies in the file.
  std::string_view string(std::string_view field, std::uint64_t limit = UINT64_MAX) {
    const std::size_t at = offset_;
    const auto size = number<std::uint64_t>(field);
    if (size > left())
      fail(ErrorCode::format, at, "{}: length {}, but {} bytes are left in the file", field, size,
           left());
    if (size > limit)
      fail(ErrorCode::format, at, "{}: length {}, expected at most {}", field, size, limit);
    const auto content = take(size, field);
    return {reinterpret_cast<const char*>(content.data()), content.size()};
  }

 private:
  [[noreturn]] void too_short(std::string_view field, std::uint64_t size) const {
    fail(ErrorCode::format, offset_, "{}: expected {} bytes, but {} bytes are left in the file",
         field, size, left());
  }

  std::span<const std::byte> bytes_;
  std::string_view file_;
  std::string_view kind_, name_;
  std::size_t offset_ = 0;
};

}  // namespace rlx
