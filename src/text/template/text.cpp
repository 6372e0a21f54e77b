#include "text/template/text.h"

#include <algorithm>

namespace rlx::jinja {
namespace {

bool continuation(std::string_view s, size_t at) {
  return at < s.size() && (static_cast<unsigned char>(s[at]) & 0xC0) == 0x80;
}

// What a text costs beside its bytes: the object, its control block and two heap headers.
constexpr size_t kTextOverhead = 128;
// What adding a piece costs beside its bytes, and what a change of one character does, next to
// copying a byte.
constexpr size_t kPieceWork = 32;
constexpr size_t kDerivedWork = 128;

TextPtr make(std::string bytes, std::vector<TextSpan> user, bool markup, Budget* budget) {
  MemoryCharge charge(budget, bytes.size() + user.size() * sizeof(TextSpan) + kTextOverhead);
  const size_t length = char_count(bytes);
  return std::make_shared<const Text>(
      Text{std::move(bytes), std::move(user), markup, length, std::move(charge)});
}

}  // namespace

TextPtr make_text(std::string bytes, Budget* budget) {
  return make(std::move(bytes), {}, false, budget);
}

TextPtr make_user_text(std::string bytes) {
  std::vector<TextSpan> user;
  if (!bytes.empty()) user.push_back({0, bytes.size()});
  return make(std::move(bytes), std::move(user), false, nullptr);
}

size_t char_bytes(std::string_view s, size_t at) {
  const auto c = static_cast<unsigned char>(s[at]);
  if (c < 0xC2) return 1;
  const size_t n = c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 1;
  for (size_t i = 1; i < n; ++i)
    if (!continuation(s, at + i)) return 1;
  return n;
}

char32_t code_point(std::string_view s, size_t at) {
  const auto byte = [&](size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(s[at + i]));
  };
  switch (char_bytes(s, at)) {
    case 2:
      return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
    case 3:
      return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    case 4:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 |
             (byte(3) & 0x3F);
    default:
      return byte(0) < 0x80 ? byte(0) : 0xFFFD;
  }
}

void append_utf8(std::string& out, char32_t c) {
  if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) c = 0xFFFD;
  const auto put = [&](char32_t b) { out.push_back(static_cast<char>(b)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3F));
    }
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

size_t char_count(std::string_view s) {
  unsigned char all = 0;
  for (const char c : s) all |= static_cast<unsigned char>(c);
  if (all < 0x80) return s.size();
  size_t n = 0;
  for (size_t i = 0; i < s.size(); i += char_bytes(s, i)) ++n;
  return n;
}

size_t byte_offset(const Text& text, size_t index) {
  if (text.ascii() || index == 0) return index;
  if (index == text.length) return text.bytes.size();
  size_t at = 0;
  while (index-- > 0) at += char_bytes(text.bytes, at);
  return at;
}

bool is_user(const Text& text, size_t at) {
  const auto next = std::upper_bound(text.user.begin(), text.user.end(), at,
                                     [](size_t a, const TextSpan& s) { return a < s.begin; });
  return next != text.user.begin() && at < std::prev(next)->end;
}

void TextBuilder::mark(size_t begin, size_t end) {
  if (begin == end) return;
  if (!user_.empty() && user_.back().end == begin)
    user_.back().end = end;
  else
    user_.push_back({begin, end});
}

void TextBuilder::put(std::string_view bytes, bool user) {
  budget_.work(bytes.size() + kPieceWork);
  budget_.check_size(bytes_.size() + bytes.size());
  const size_t begin = bytes_.size();
  bytes_.append(bytes);
  if (user) mark(begin, bytes_.size());
}

void TextBuilder::add(const Text& text, size_t begin, size_t end) {
  const size_t shift = bytes_.size();
  put(std::string_view(text.bytes).substr(begin, end - begin), false);
  auto span = std::lower_bound(text.user.begin(), text.user.end(), begin,
                               [](const TextSpan& s, size_t b) { return s.end <= b; });
  for (; span != text.user.end() && span->begin < end; ++span) {
    budget_.work(sizeof(TextSpan));
    mark(std::max(span->begin, begin) - begin + shift, std::min(span->end, end) - begin + shift);
  }
}

void TextBuilder::add_derived(std::string_view bytes, const Text& source, size_t at) {
  budget_.work(kDerivedWork);
  put(bytes, is_user(source, at));
}

void TextBuilder::add_char(char32_t c) {
  std::string bytes;
  append_utf8(bytes, c);
  add(bytes);
}

void TextBuilder::add_repeated(std::string_view bytes, int64_t count) {
  if (count <= 0 || bytes.empty()) return;
  if (static_cast<uint64_t>(count) > budget_.limits().memory_bytes / bytes.size())
    limit_fault("a text of {} times {} bytes passes the limit of {} bytes", count, bytes.size(),
                budget_.limits().memory_bytes);
  bytes_.reserve(bytes_.size() + static_cast<size_t>(count) * bytes.size());
  for (int64_t i = 0; i < count; ++i) put(bytes, false);
}

TextPtr TextBuilder::finish(bool markup) {
  budget_.work(bytes_.size(), 2);
  return make(std::move(bytes_), std::move(user_), markup, &budget_);
}

TextPtr slice_bytes(const Text& text, size_t begin, size_t end, Budget& budget) {
  TextBuilder out(budget);
  out.add(text, begin, end);
  return out.finish(text.markup);
}

}  // namespace rlx::jinja
