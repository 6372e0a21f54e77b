#include "text/tokenizer/byte_level.h"

#include "text/tokenizer/utf8.h"

namespace rlx::tokenizer {

void append_byte_chars(std::string& out, std::string_view bytes) {
  for (const char b : bytes) append_utf8(out, kByteAlphabet.to_char[static_cast<unsigned char>(b)]);
}

void append_bytes_of(std::string& out, std::string_view token) {
  const std::size_t start = out.size();
  for (std::size_t at = 0; at < token.size(); at += utf8_length(token[at])) {
    const char32_t c = utf8_at(token, at);
    const int byte = c < kByteChars ? kByteAlphabet.to_byte[c] : -1;
    if (byte < 0) {
      out.resize(start);
      out += token;
      return;
    }
    out += static_cast<char>(byte);
  }
}

}  // namespace rlx::tokenizer
