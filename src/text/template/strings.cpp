#include "text/template/strings.h"

#include <algorithm>

#include "text/template/search.h"
#include "text/template/unicode.h"

namespace rlx::jinja {
namespace {

// The byte where the last character of s[0, end) starts.
size_t previous(std::string_view s, size_t end) {
  size_t at = end - 1;
  while (at > 0 && end - at < 4 && (static_cast<unsigned char>(s[at]) & 0xC0) == 0x80) --at;
  return at + char_bytes(s, at) == end ? at : end - 1;
}

struct Stripped {
  const std::u32string chars;  // ascending
  bool any_space;
  bool operator()(char32_t c) const {
    return any_space ? is_space(c) : std::binary_search(chars.begin(), chars.end(), c);
  }
};

std::u32string sorted_chars(const Text* text) {
  std::u32string out;
  if (text == nullptr) return out;
  for (size_t i = 0; i < text->bytes.size(); i += char_bytes(text->bytes, i))
    out.push_back(code_point(text->bytes, i));
  std::sort(out.begin(), out.end());
  return out;
}

// A capital sigma at the end of a word has a lower case of its own.
bool final_sigma(std::string_view s, size_t at) {
  size_t before = at;
  bool cased = false;
  while (before > 0) {
    before = previous(s, before);
    const char32_t c = code_point(s, before);
    if (is_case_ignorable(c)) continue;
    cased = is_cased(c);
    break;
  }
  if (!cased) return false;
  for (size_t i = at + char_bytes(s, at); i < s.size(); i += char_bytes(s, i)) {
    const char32_t c = code_point(s, i);
    if (!is_case_ignorable(c)) return !is_cased(c);
  }
  return true;
}

std::u32string lower_at(std::string_view s, size_t at, char32_t c) {
  if (c == 0x3A3 && final_sigma(s, at)) return U"\u03C2";
  return to_lower(c);
}

// Bytes stay where they are, and so does their origin.
TextPtr change_ascii(const Text& text, bool upper, Budget& budget) {
  TextBuilder out(budget);
  budget.work(text.bytes.size(), 4);
  std::string changed = text.bytes;
  for (char& c : changed) {
    if (upper && c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
    if (!upper && c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  Text same{std::move(changed), text.user, false, text.length, {}};
  out.add(same);
  return out.finish(text.markup);
}

void add_piece(std::vector<TextPtr>& out, const Text& text, size_t begin, size_t end,
               Budget& budget) {
  budget.step();
  out.push_back(slice_bytes(text, begin, end, budget));
}

size_t skip(std::string_view s, size_t at, bool spaces) {
  while (at < s.size() && is_space(code_point(s, at)) == spaces) at += char_bytes(s, at);
  return at;
}

size_t skip_back(std::string_view s, size_t end, bool spaces) {
  while (end > 0) {
    const size_t at = previous(s, end);
    if (is_space(code_point(s, at)) != spaces) break;
    end = at;
  }
  return end;
}

void check_separator(const Text& separator) {
  if (separator.bytes.empty()) fault("empty separator");
}

}  // namespace

Value list_of(std::vector<TextPtr> parts, Budget& budget) {
  Items items(std::make_move_iterator(parts.begin()), std::make_move_iterator(parts.end()));
  return Value::list(std::move(items), &budget);
}

TextPtr strip(const Text& text, const Text* chars, Sides sides, Budget& budget) {
  const Stripped stripped{sorted_chars(chars), chars == nullptr};
  const std::string_view s = text.bytes;
  size_t begin = 0, end = s.size();
  if (sides != Sides::right)
    while (begin < end && stripped(code_point(s, begin))) begin += char_bytes(s, begin);
  if (sides != Sides::left)
    while (end > begin && stripped(code_point(s, previous(s, end)))) end = previous(s, end);
  budget.work(s.size() - (end - begin), 16);
  return slice_bytes(text, begin, end, budget);
}

TextPtr change_case(const Text& text, Letters letters, Budget& budget) {
  if (text.ascii() &&
      (letters == Letters::upper || letters == Letters::lower || letters == Letters::fold))
    return change_ascii(text, letters == Letters::upper, budget);
  TextBuilder out(budget);
  const std::string_view s = text.bytes;
  bool in_word = false;
  for (size_t i = 0; i < s.size(); i += char_bytes(s, i)) {
    const char32_t c = code_point(s, i);
    std::u32string mapped;
    switch (letters) {
      case Letters::upper:
        mapped = to_upper(c);
        break;
      case Letters::lower:
        mapped = lower_at(s, i, c);
        break;
      case Letters::fold:
        mapped = fold_case(c);
        break;
      case Letters::swap:
        mapped = is_upper(c) ? lower_at(s, i, c) : is_lower(c) ? to_upper(c) : std::u32string(1, c);
        break;
      case Letters::capitalize:
        mapped = i == 0 ? to_title(c) : lower_at(s, i, c);
        break;
      case Letters::title:
        mapped = in_word ? lower_at(s, i, c) : to_title(c);
        in_word = is_cased(c);
        break;
    }
    std::string bytes;
    for (const char32_t m : mapped) append_utf8(bytes, m);
    if (mapped.size() == 1 && mapped[0] == c) bytes = s.substr(i, char_bytes(s, i));
    out.add_derived(bytes, text, i);
  }
  return out.finish(text.markup);
}

TextPtr replace(const Text& text, const Text& from, const Text& to, int64_t count, Budget& budget) {
  TextBuilder out(budget);
  const std::string_view s = text.bytes;
  size_t at = 0;
  if (from.bytes.empty()) {
    // Between all characters, and at both ends.
    for (; count != 0; --count) {
      out.add(to);
      if (at >= s.size()) break;
      const size_t n = char_bytes(s, at);
      out.add(text, at, at + n);
      at += n;
    }
  } else {
    for (; count != 0; --count) {
      const size_t found = find_bytes(budget, s, from.bytes, at);
      if (found == std::string::npos) break;
      out.add(text, at, found);
      out.add(to);
      at = found + from.bytes.size();
    }
  }
  out.add(text, std::min(at, s.size()), s.size());
  return out.finish(text.markup);
}

std::vector<TextPtr> split_lines(const Text& text, bool keep_ends, Budget& budget) {
  std::vector<TextPtr> out;
  const std::string_view s = text.bytes;
  budget.work(s.size(), 16);
  size_t begin = 0;
  for (size_t i = 0; i < s.size();) {
    const size_t n = char_bytes(s, i);
    if (!is_line_break(code_point(s, i))) {
      i += n;
      continue;
    }
    const size_t next = s[i] == '\r' && i + 1 < s.size() && s[i + 1] == '\n' ? i + 2 : i + n;
    add_piece(out, text, begin, keep_ends ? next : i, budget);
    begin = i = next;
  }
  if (begin < s.size()) add_piece(out, text, begin, s.size(), budget);
  return out;
}

// What could never be held fails before millions of pieces are made: a machine that is short of
// memory takes seconds for the pages of two million.
static void check_pieces(std::string_view s, std::string_view separator, int64_t most, Budget& budget) {
  constexpr size_t kBytesOfPiece = 128;  // a text with its place in the list, at least
  size_t pieces = 1;
  for (size_t at = s.find(separator); at != std::string_view::npos && most != 0; --most, ++pieces)
    at = s.find(separator, at + separator.size());
  budget.work(s.size());
  budget.check_size(pieces * kBytesOfPiece);
}

std::vector<TextPtr> split(const Text& text, const Text* separator, int64_t most, Budget& budget) {
  std::vector<TextPtr> out;
  const std::string_view s = text.bytes;
  if (separator == nullptr) {
    budget.work(s.size(), 16);
    size_t at = skip(s, 0, true);
    for (; at < s.size() && most != 0; --most) {
      const size_t end = skip(s, at, false);
      add_piece(out, text, at, end, budget);
      at = skip(s, end, true);
    }
    if (at < s.size()) add_piece(out, text, at, s.size(), budget);
    return out;
  }
  check_separator(*separator);
  check_pieces(s, separator->bytes, most, budget);
  size_t at = 0;
  for (; most != 0; --most) {
    const size_t found = find_bytes(budget, s, separator->bytes, at);
    if (found == std::string::npos) break;
    add_piece(out, text, at, found, budget);
    at = found + separator->bytes.size();
  }
  add_piece(out, text, at, s.size(), budget);
  return out;
}

std::vector<TextPtr> split_right(const Text& text, const Text* separator, int64_t most,
                                 Budget& budget) {
  std::vector<TextPtr> out;
  const std::string_view s = text.bytes;
  if (separator == nullptr) {
    budget.work(s.size(), 16);
    size_t end = skip_back(s, s.size(), true);
    for (; end > 0 && most != 0; --most) {
      const size_t begin = skip_back(s, end, false);
      add_piece(out, text, begin, end, budget);
      end = skip_back(s, begin, true);
    }
    if (end > 0) add_piece(out, text, 0, end, budget);
  } else {
    check_separator(*separator);
    check_pieces(s, separator->bytes, most, budget);
    size_t end = s.size();
    for (; most != 0; --most) {
      const size_t found = find_last_bytes(budget, s, separator->bytes, end);
      if (found == std::string::npos) break;
      add_piece(out, text, found + separator->bytes.size(), end, budget);
      end = found;
    }
    add_piece(out, text, 0, end, budget);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

TextPtr pad(const Text& text, int64_t width, std::string_view fill, Sides text_side,
            Budget& budget) {
  const int64_t missing = std::max<int64_t>(width - static_cast<int64_t>(text.length), 0);
  int64_t left = text_side == Sides::left ? 0 : missing;
  // Python's rule for an odd number of fill characters.
  if (text_side == Sides::both) left = missing / 2 + (missing & width & 1);
  TextBuilder out(budget);
  out.add_repeated(fill, left);
  out.add(text);
  out.add_repeated(fill, missing - left);
  return out.finish(text.markup);
}

}  // namespace rlx::jinja
