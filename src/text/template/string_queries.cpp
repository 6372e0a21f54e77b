// Methods of strings that answer questions: where, how often, of which class.
#include <algorithm>
#include <utility>

#include "text/template/functions.h"
#include "text/template/operators.h"
#include "text/template/search.h"
#include "text/template/unicode.h"

namespace rlx::jinja {
namespace {

struct Window {
  size_t begin = 0, end = 0;  // bytes
  bool valid = true;          // false: start after the end of the text or of the window
};

// The part of the subject that the optional arguments start and stop (2 and 3) choose.
Window window(Args& a) {
  const Text& text = a.text(0);
  const auto size = static_cast<int64_t>(text.length);
  const auto bound = [&](int64_t i) { return i < 0 ? std::max<int64_t>(i + size, 0) : i; };
  const int64_t start = bound(a.integer_or(2, 0));
  const int64_t stop = std::min(bound(a.integer_or(3, size)), size);
  if (start > stop) return {0, 0, false};
  if (!text.ascii()) a.budget.work(text.bytes.size(), 2);
  return {byte_offset(text, static_cast<size_t>(start)),
          byte_offset(text, static_cast<size_t>(stop)), true};
}

size_t find_in_window(Args& a, const Window& w, bool last) {
  const Text &text = a.text(0), &part = a.text(1);
  if (!w.valid) return std::string::npos;
  const std::string_view s = std::string_view(text.bytes).substr(0, w.end);
  if (!last) return find_bytes(a.budget, s, part.bytes, w.begin);
  const size_t at = find_last_bytes(a.budget, s, part.bytes, w.end);
  return at == std::string::npos || at < w.begin ? std::string::npos : at;
}

template <bool last, bool must>
Value find_method_of(Args& a) {
  const size_t at = find_in_window(a, window(a), last);
  if (at == std::string::npos) {
    if (must) fault("substring not found");
    return -1;
  }
  const Text& text = a.text(0);
  if (text.ascii()) return at;
  a.budget.work(at);
  return char_count(std::string_view(text.bytes).substr(0, at));
}

Value count_method(Args& a) {
  const Text &text = a.text(0), &part = a.text(1);
  const Window w = window(a);
  if (!w.valid) return 0;
  const std::string_view s = std::string_view(text.bytes).substr(w.begin, w.end - w.begin);
  if (part.bytes.empty()) return char_count(s) + 1;
  int64_t n = 0;
  for (size_t at = 0; (at = find_bytes(a.budget, s, part.bytes, at)) != std::string::npos;
       at += part.bytes.size())
    ++n;
  return n;
}

template <bool prefix>
Value affix_method(Args& a) {
  const Window w = window(a);
  const auto fits = [&](const Value& part) {
    if (!part.is_string())
      fault("{} first arg must be str or a tuple of str, not {}", a.name, part.type_name());
    const std::string_view s = std::string_view(a.text(0).bytes).substr(w.begin, w.end - w.begin);
    a.budget.work(part.text().bytes.size());
    return w.valid && (prefix ? s.starts_with(part.text().bytes) : s.ends_with(part.text().bytes));
  };
  if (a[1].is_undefined()) undefined_fault(a[1]);
  if (!a[1].is(Kind::tuple)) return fits(a[1]);
  a.budget.step(static_cast<int64_t>(a[1].items().size()));
  return std::any_of(a[1].items().begin(), a[1].items().end(), fits);
}

template <bool (*wanted)(char32_t), bool empty_value>
Value all_chars(Args& a) {
  const std::string_view s = a.text(0).bytes;
  a.budget.work(s.size(), 16);
  for (size_t i = 0; i < s.size(); i += char_bytes(s, i))
    if (!wanted(code_point(s, i))) return false;
  return empty_value || !s.empty();
}

bool is_alnum(char32_t c) { return is_alpha(c) || is_numeric(c); }
bool is_ascii(char32_t c) { return c < 0x80; }

template <bool (*wanted)(char32_t)>
Value all_of_case(Args& a) {
  const std::string_view s = a.text(0).bytes;
  a.budget.work(s.size(), 16);
  bool any = false;
  for (size_t i = 0; i < s.size(); i += char_bytes(s, i)) {
    const char32_t c = code_point(s, i);
    if (!is_cased(c)) continue;
    if (!wanted(c)) return false;
    any = true;
  }
  return any;
}

Value is_title_text(Args& a) {
  const std::string_view s = a.text(0).bytes;
  a.budget.work(s.size(), 16);
  bool any = false, in_word = false;
  for (size_t i = 0; i < s.size(); i += char_bytes(s, i)) {
    const char32_t c = code_point(s, i);
    if (is_upper(c) || is_title(c)) {
      if (in_word) return false;
      in_word = any = true;
    } else if (is_lower(c)) {
      if (!in_word) return false;
      any = true;
    } else {
      in_word = false;
    }
  }
  return any;
}

constexpr Function kSearch[] = {
    {"find", "self,sub,start,end", 2, find_method_of<false, false>},
    {"rfind", "self,sub,start,end", 2, find_method_of<true, false>},
    {"index", "self,sub,start,end", 2, find_method_of<false, true>},
    {"rindex", "self,sub,start,end", 2, find_method_of<true, true>},
    {"count", "self,sub,start,end", 2, count_method},
    {"startswith", "self,prefix,start,end", 2, affix_method<true>},
    {"endswith", "self,suffix,start,end", 2, affix_method<false>},
};

constexpr Function kClasses[] = {
    {"isalpha", "self", 1, all_chars<is_alpha, false>},
    {"isdigit", "self", 1, all_chars<is_digit, false>},
    {"isdecimal", "self", 1, all_chars<is_decimal, false>},
    {"isnumeric", "self", 1, all_chars<is_numeric, false>},
    {"isalnum", "self", 1, all_chars<is_alnum, false>},
    {"isspace", "self", 1, all_chars<is_space, false>},
    {"isprintable", "self", 1, all_chars<is_printable, true>},
    {"isascii", "self", 1, all_chars<is_ascii, true>},
    {"islower", "self", 1, all_of_case<is_lower>},
    {"isupper", "self", 1, all_of_case<is_upper>},
    {"istitle", "self", 1, is_title_text},
    {"isidentifier", "self", 1, [](Args& a) { return Value(is_identifier(a.text(0).bytes)); }},
};

}  // namespace

FunctionTable string_search_methods() { return kSearch; }
FunctionTable string_class_methods() { return kClasses; }

}  // namespace rlx::jinja
