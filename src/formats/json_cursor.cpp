#include "formats/json_cursor.h"

#include "base/checked.h"

namespace rlx {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6), put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12), put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18), put(0x80 | (code >> 12 & 0x3f)), put(0x80 | (code >> 6 & 0x3f)),
        put(0x80 | (code & 0x3f));
  }
}

}  // namespace

void JsonCursor::skip_space() {
  while (!at_end() && (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r')) ++pos_;
}

void JsonCursor::unexpected(std::string_view what) const {
  fail(offset(), "JSON: expected {}, found {}", what,
       at_end() ? std::string("the end of the text") : quote(text_.substr(pos_, 1)));
}

void JsonCursor::expect(char c, std::string_view what) {
  skip_space();
  if (at_end() || peek() != c) unexpected(what);
  ++pos_;
}

void JsonCursor::open(char c, std::string_view what) {
  expect(c, what);
  if (++depth_ > kMaxDepth) fail(offset(), "JSON: nested more than {} deep", kMaxDepth);
}

bool JsonCursor::close(char c) {
  skip_space();
  if (at_end() || peek() != c) return false;
  ++pos_;
  return true;
}

bool JsonCursor::end(char c) {
  if (close(c)) return true;
  expect(',', c == '}' ? "',' or '}'" : "',' or ']'");
  return false;
}

void JsonCursor::end_of_text() {
  skip_space();
  if (!at_end()) unexpected("the end of the text");
}

std::string JsonCursor::string(std::string_view what) {
  expect('"', what);
  std::string out;
  while (true) {
    // Plain characters are most of the text: take them in one go.
    std::size_t end = pos_;
    while (end < text_.size() && text_[end] >= 0x20 && text_[end] != '"' && text_[end] != '\\')
      ++end;
    out.append(text_, pos_, end - pos_);
    pos_ = end;
    if (at_end()) unexpected("'\"' at the end of a string");
    const auto c = static_cast<unsigned char>(peek());
    if (c == '"') break;
    if (c == '\\')
      escape(out);
    else if (c < 0x20)
      fail(offset(), "JSON: control character {:#04x} in a string", static_cast<unsigned>(c));
    else
      utf8_sequence(out);
  }
  ++pos_;
  return out;
}

std::uint32_t JsonCursor::hex4() {
  std::uint32_t code = 0;
  for (int i = 0; i < 4; ++i, ++pos_) {
    const char c = peek();
    if (is_digit(c))
      code = code * 16 + static_cast<std::uint32_t>(c - '0');
    else if (const char lower = static_cast<char>(c | 0x20); lower >= 'a' && lower <= 'f')
      code = code * 16 + static_cast<std::uint32_t>(lower - 'a' + 10);
    else
      unexpected("four hexadecimal digits after \\u");
  }
  return code;
}

void JsonCursor::escape(std::string& out) {
  const std::uint64_t at = offset();
  ++pos_;
  const char c = peek();
  constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
  if (const auto i = kFrom.find(c); !at_end() && i != kFrom.npos) {
    out += kTo[i];
    ++pos_;
    return;
  }
  if (c != 'u') unexpected("an escape (one of \"\\/bfnrtu)");
  ++pos_;
  std::uint32_t code = hex4();
  if (code >= 0xdc00 && code <= 0xdfff) fail(at, "JSON: low surrogate without a high one");
  if (code >= 0xd800 && code <= 0xdbff) {
    if (text_.substr(pos_, 2) != "\\u") fail(at, "JSON: high surrogate without a low one");
    pos_ += 2;
    const std::uint32_t low = hex4();
    if (low < 0xdc00 || low > 0xdfff) fail(at, "JSON: high surrogate without a low one");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  append_utf8(out, code);
}

void JsonCursor::utf8_sequence(std::string& out) {
  const auto first = static_cast<unsigned char>(peek());
  const std::size_t size = first >= 0xf0 && first <= 0xf4 ? 4 : first >= 0xe0 ? 3 : 2;
  std::uint32_t code = size == 4 ? first & 0x07u : size == 3 ? first & 0x0fu : first & 0x1fu;
  bool valid = first >= 0xc2 && first <= 0xf4 && pos_ + size <= text_.size();
  for (std::size_t i = 1; valid && i < size; ++i) {
    const auto next = static_cast<unsigned char>(text_[pos_ + i]);
    valid = (next & 0xc0) == 0x80;
    code = code << 6 | (next & 0x3fu);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (!valid || code < kSmallest[size] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
    fail(offset(), "JSON: invalid UTF-8 in a string");
  out.append(text_, pos_, size);
  pos_ += size;
}

std::uint64_t JsonCursor::unsigned_integer(std::string_view what) {
  skip_space();
  const std::uint64_t at = offset();
  if (!is_digit(peek())) unexpected(what);
  const bool zero = peek() == '0';
  std::uint64_t value = 0;
  for (; is_digit(peek()); ++pos_) {
    const auto tens = checked_mul<std::uint64_t>(value, 10);
    const auto next =
        tens ? checked_add(*tens, static_cast<std::uint64_t>(peek() - '0')) : std::nullopt;
    if (!next) fail(at, "JSON: {}: the number does not fit in 64 bits", what);
    value = *next;
  }
  if (zero && offset() > at + 1) fail(at, "JSON: {}: a number with a leading 0", what);
  if (peek() == '.' || peek() == 'e' || peek() == 'E')
    fail(at, "JSON: expected {}, found a number with a fraction", what);
  return value;
}

void JsonCursor::number() {
  if (peek() == '-') ++pos_;
  if (!is_digit(peek())) unexpected("a value");
  const bool zero = peek() == '0';
  ++pos_;
  if (zero && is_digit(peek())) unexpected("a number without a leading 0");
  const auto digits = [&] {
    while (is_digit(peek())) ++pos_;
  };
  digits();
  if (peek() == '.') {
    ++pos_;
    if (!is_digit(peek())) unexpected("a digit after '.'");
    digits();
  }
  if (peek() == 'e' || peek() == 'E') {
    ++pos_;
    if (peek() == '+' || peek() == '-') ++pos_;
    if (!is_digit(peek())) unexpected("a digit of an exponent");
    digits();
  }
}

// Recursion ends at kMaxDepth, which open() checks.
void JsonCursor::skip_value() {
  skip_space();
  switch (peek()) {
    case '{':
      return object("an object", [&](const std::string&, std::uint64_t) { skip_value(); });
    case '[':
      return array("an array", [&] { skip_value(); });
    case '"':
      string("a string");
      return;
    default:
      break;
  }
  for (const std::string_view word : {"true", "false", "null"})
    if (text_.substr(pos_, word.size()) == word) {
      pos_ += word.size();
      return;
    }
  number();
}

}  // namespace rlx
