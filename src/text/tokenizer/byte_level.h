// The byte alphabet of GPT-2 (https://github.com/openai/gpt-2/blob/master/src/encoder.py,
// bytes_to_unicode): every byte is written as one printable character, so that a vocabulary of
// bytes is text.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace rlx::tokenizer {

/// Characters of the alphabet are below this.
inline constexpr std::size_t kByteChars = 324;

struct ByteAlphabet {
  std::array<char32_t, 256> to_char{};
  std::array<std::int16_t, kByteChars> to_byte{};  ///< -1: not a character of the alphabet
};

constexpr ByteAlphabet make_byte_alphabet() {
  ByteAlphabet a;
  a.to_byte.fill(-1);
  char32_t next = 256;
  for (unsigned b = 0; b < 256; ++b) {
    const bool printable =
        (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
    const char32_t c = printable ? b : next++;
    a.to_char[b] = c;
    a.to_byte[c] = static_cast<std::int16_t>(b);
  }
  return a;
}

inline constexpr ByteAlphabet kByteAlphabet = make_byte_alphabet();

/// Appends the characters that stand for the bytes.
void append_byte_chars(std::string& out, std::string_view bytes);

/// Appends the bytes that the characters of `token` (valid UTF-8) stand for. A token with any other
/// character is itself.
void append_bytes_of(std::string& out, std::string_view token);

}  // namespace rlx::tokenizer
