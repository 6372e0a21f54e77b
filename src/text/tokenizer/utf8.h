// UTF-8 (https://www.rfc-editor.org/rfc/rfc3629): checking, walking, and replacing what is not
// UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rlx::tokenizer {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  ///< U+FFFD

/// What stands at the front of a text: a character, the maximal part of an invalid one, or the
/// valid start of a character that the text cuts off (the Unicode standard, table 3-7).
struct Utf8Step {
  enum class Kind : std::uint8_t { character, invalid, cut } kind;
  std::uint8_t length;  ///< bytes
  char32_t code;        ///< the character; U+FFFD otherwise
};

/// `text` must not be empty.
Utf8Step utf8_step(std::string_view text) noexcept;

bool is_utf8(std::string_view text) noexcept;

/// The text with each maximal invalid part replaced by U+FFFD.
std::string to_utf8(std::string_view bytes);

void append_utf8(std::string& out, char32_t code);

/// Length in bytes of the character that begins with `lead`, in text that is known to be valid.
constexpr std::size_t utf8_length(char lead) noexcept {
  const auto b = static_cast<unsigned char>(lead);
  return b < 0x80 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}

/// The character at `at` in text that is known to be valid.
char32_t utf8_at(std::string_view text, std::size_t at) noexcept;

/// Bytes in parts to text in parts: joined, the same as to_utf8 of the joined bytes; a cut
/// character waits for its rest.
class Utf8Stream {
 public:
  void push(std::string_view bytes, std::string& out);
  void finish(std::string& out);

 private:
  std::string pending_;
};

}  // namespace rlx::tokenizer
