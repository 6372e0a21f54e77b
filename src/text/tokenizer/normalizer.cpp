#include "text/tokenizer/normalizer.h"

#include <algorithm>

#include "base/error.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/utf8.h"

namespace rlx::tokenizer {
namespace {

constexpr std::size_t kMaxText = 256 << 20;

std::string apply(const NormalFormStep& step, std::string text, std::size_t) {
  return normalize(text, step.form);
}

std::string apply(const LowercaseStep&, std::string text, std::size_t) { return lowercase(text); }

std::string apply(const StripAccentsStep&, std::string text, std::size_t) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text[at]);
    if (!is_nonspacing_mark(utf8_at(text, at))) out.append(text, at, length);
    at += length;
  }
  return out;
}

std::string apply(const CleanStep&, std::string text, std::size_t) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text[at]);
    const char32_t c = utf8_at(text, at);
    // Vertical tab and form feed are control characters here, so that they go.
    const bool space = c == '\t' || c == '\n' || c == '\r' || (is_whitespace(c) && !is_other(c));
    if (space)
      out += ' ';
    else if (c != 0xFFFD && !is_other(c))
      out.append(text, at, length);
    at += length;
  }
  return out;
}

// CJK ideographs and their extensions, as google-research/bert lists them.
bool is_han(char32_t c) noexcept {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

std::string apply(const SpacedHanStep&, std::string text, std::size_t) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text[at]);
    const bool han = is_han(utf8_at(text, at));
    if (han) out += ' ';
    out.append(text, at, length);
    if (han) out += ' ';
    at += length;
  }
  return out;
}

std::string apply(const StripStep& step, std::string text, std::size_t) {
  std::size_t begin = 0;
  std::size_t end = text.size();
  while (step.left && begin < end && is_whitespace(utf8_at(text, begin)))
    begin += utf8_length(text[begin]);
  while (step.right && begin < end) {
    std::size_t last = end - 1;
    while ((static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
    if (!is_whitespace(utf8_at(text, last))) break;
    end = last;
  }
  return text.substr(begin, end - begin);
}

std::string apply(const PrependStep& step, std::string text, std::size_t limit) {
  if (text.empty()) return text;
  check_rewritten(text.size() + step.text.size(), limit);
  text.insert(0, step.text);
  return text;
}

std::string apply(const ReplaceStep& step, std::string text, std::size_t limit) {
  return replace(text, step.pattern, step.content, limit);
}

std::string apply(const ByteCharsStep&, std::string text, std::size_t) {
  std::string out;
  append_byte_chars(out, text);
  return out;
}

}  // namespace

std::size_t rewritten_limit(std::size_t bytes) {
  constexpr std::size_t kFactor = 64;
  constexpr std::size_t kFree = 64 << 10;
  return bytes >= kMaxText / kFactor ? kMaxText : std::min(bytes * kFactor + kFree, kMaxText);
}

void check_rewritten(std::size_t bytes, std::size_t limit) {
  if (bytes > limit) {
    fail(ErrorCode::format,
         "rewriting the text makes it longer than {} bytes, the limit for a text of this length",
         limit);
  }
}

std::string replace(std::string_view text, const TextPattern& pattern, std::string_view content,
                    std::size_t limit) {
  std::vector<Part> parts;
  pattern.split(text, parts);
  std::string out;
  out.reserve(std::min(text.size(), limit));
  for (const Part& p : parts) {
    const std::string_view added = p.match ? content : text.substr(p.begin, p.end - p.begin);
    check_rewritten(out.size() + added.size(), limit);
    out += added;
  }
  return out;
}

std::string replace(std::string_view text, const TextPattern& pattern, std::string_view content) {
  return replace(text, pattern, content, rewritten_limit(text.size()));
}

std::string normalize(const std::vector<NormalizeStep>& steps, std::string text,
                      std::size_t limit) {
  for (const NormalizeStep& step : steps) {
    text = std::visit([&](const auto& s) { return apply(s, std::move(text), limit); }, step);
    check_rewritten(text.size(), limit);
  }
  return text;
}

}  // namespace rlx::tokenizer
