#include "text/tokenizer/utf8.h"

namespace rlx::tokenizer {
namespace {

/// The range that the second byte must lie in: overlong forms, surrogates and codes past U+10FFFF
/// are cut out here.
struct Lead {
  std::uint8_t length, low, high;
};

constexpr Lead lead_of(unsigned char b) noexcept {
  if (b >= 0xC2 && b <= 0xDF) return {2, 0x80, 0xBF};
  if (b == 0xE0) return {3, 0xA0, 0xBF};
  if (b == 0xED) return {3, 0x80, 0x9F};
  if (b >= 0xE1 && b <= 0xEF) return {3, 0x80, 0xBF};
  if (b == 0xF0) return {4, 0x90, 0xBF};
  if (b >= 0xF1 && b <= 0xF3) return {4, 0x80, 0xBF};
  if (b == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Step utf8_step(std::string_view text) noexcept {
  using Kind = Utf8Step::Kind;
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return {Kind::character, 1, first};
  const Lead lead = lead_of(first);
  if (lead.length == 0) return {Kind::invalid, 1, 0xFFFD};
  char32_t code = first & (0x7Fu >> lead.length);
  for (std::uint8_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {Kind::cut, i, 0xFFFD};
    const auto b = static_cast<unsigned char>(text[i]);
    const bool fits = i == 1 ? b >= lead.low && b <= lead.high : (b & 0xC0) == 0x80;
    if (!fits) return {Kind::invalid, i, 0xFFFD};
    code = code << 6 | (b & 0x3Fu);
  }
  return {Kind::character, lead.length, code};
}

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    if (step.kind != Utf8Step::Kind::character) return false;
    text.remove_prefix(step.length);
  }
  return true;
}

std::string to_utf8(std::string_view bytes) {
  std::string out;
  Utf8Stream stream;
  stream.push(bytes, out);
  stream.finish(out);
  return out;
}

void append_utf8(std::string& out, char32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

char32_t utf8_at(std::string_view text, std::size_t at) noexcept {
  return utf8_step(text.substr(at)).code;
}

void Utf8Stream::push(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!pending_.empty()) {
    joined = pending_ + std::string(bytes);
    bytes = joined;
    pending_.clear();
  }
  std::size_t plain = 0;  // bytes at the front that are valid and not yet copied
  while (plain < bytes.size()) {
    const Utf8Step step = utf8_step(bytes.substr(plain));
    if (step.kind == Utf8Step::Kind::character) {
      plain += step.length;
      continue;
    }
    out += bytes.substr(0, plain);
    bytes.remove_prefix(plain);
    plain = 0;
    if (step.kind == Utf8Step::Kind::cut) {
      pending_ = bytes;
      return;
    }
    out += kReplacement;
    bytes.remove_prefix(step.length);
  }
  out += bytes;
}

void Utf8Stream::finish(std::string& out) {
  if (!pending_.empty()) out += kReplacement;
  pending_.clear();
}

}  // namespace rlx::tokenizer
