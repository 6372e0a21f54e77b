// Filters that change strings.
#include <algorithm>

#include "text/template/convert.h"
#include "text/template/filters.h"
#include "text/template/strings.h"
#include "text/template/unicode.h"

namespace rlx::jinja {

TextPtr soft_text(const Value& v, Budget& budget) { return to_text(v, budget); }

namespace {

TextPtr subject(Args& a) { return soft_text(a[0], a.budget); }

// str(text): markup becomes plain.
TextPtr plain(TextPtr text, Budget& budget) {
  if (!text->markup) return text;
  TextBuilder out(budget);
  out.add(*text);
  return out.finish();
}

template <Letters letters>
Value case_filter(Args& a) {
  return change_case(*subject(a), letters, a.budget);
}

// Words begin after white space, hyphens and opening brackets (unlike in str.title).
Value title_filter(Args& a) {
  const TextPtr text = subject(a);
  const std::string_view s = text->bytes;
  TextBuilder out(a.budget);
  bool begin = true;
  for (size_t i = 0; i < s.size(); i += char_bytes(s, i)) {
    const char32_t c = code_point(s, i);
    const bool split = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    std::string bytes;
    for (const char32_t m : split ? std::u32string(1, c) : begin ? to_upper(c) : to_lower(c))
      append_utf8(bytes, m);
    out.add_derived(bytes, *text, i);
    begin = split;
  }
  return out.finish();
}

Value trim_filter(Args& a) {
  const TextPtr text = subject(a);
  return strip(*text, a.absent(1) ? nullptr : &a.text(1), Sides::both, a.budget);
}

Value replace_filter(Args& a) {
  const TextPtr text = plain(subject(a), a.budget);
  const TextPtr from = to_text(a[1], a.budget), to = to_text(a[2], a.budget);
  return replace(*text, *from, *to, a.integer_or(3, -1), a.budget);
}

Value center_filter(Args& a) {
  return pad(*subject(a), a.integer_or(1, 80), " ", Sides::both, a.budget);
}

Value indent_filter(Args& a) {
  const Text& text = a.text(0);
  TextPtr indent;
  if (a.has(1) && a[1].is_string()) {
    indent = a[1].text_ptr();
  } else {
    TextBuilder spaces(a.budget);
    spaces.add_repeated(" ", a.integer_or(1, 4));
    indent = spaces.finish();
  }
  const bool first = a.flag(2, false), blank = a.flag(3, false);
  TextBuilder whole(a.budget);
  whole.add(text);
  whole.add('\n');
  const auto lines = split_lines(*whole.finish(), false, a.budget);
  TextBuilder out(a.budget);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.add('\n');
    if (i == 0 ? first : blank || !lines[i]->bytes.empty()) out.add(*indent);
    out.add(*lines[i]);
  }
  return out.finish(text.markup);
}

Value truncate_filter(Args& a) {
  const int64_t length = a.integer_or(1, 255);
  const TextPtr end = a.absent(3)        ? make_text("...", &a.budget)
                      : a[3].is_string() ? a[3].text_ptr()
                                         : nullptr;
  if (!end) fault("truncate: end must be a string");
  const int64_t leeway = a.integer_or(4, 5);
  const auto end_length = static_cast<int64_t>(end->length);
  if (length < end_length) fault("truncate: expected length >= {}, got {}", end_length, length);
  if (leeway < 0) fault("truncate: expected leeway >= 0, got {}", leeway);
  const auto size = length_of(a[0]);
  if (!size) fault("object of type '{}' has no len()", a[0].type_name());
  if (*size <= length + leeway) return a[0];
  a.text(0);
  const TextPtr text = a[0].text_ptr();
  a.budget.work(text->bytes.size());
  size_t cut = byte_offset(*text, static_cast<size_t>(length - end_length));
  if (!a.flag(2, false)) {
    const size_t space = std::string_view(text->bytes).substr(0, cut).rfind(' ');
    if (space != std::string_view::npos) cut = space;
  }
  TextBuilder out(a.budget);
  out.add(*text, 0, cut);
  out.add(*end);
  return out.finish(text->markup);
}

bool is_word(char32_t c) { return c == '_' || is_alpha(c) || is_numeric(c); }

Value wordcount_filter(Args& a) {
  const TextPtr text = subject(a);
  a.budget.work(text->bytes.size(), 16);
  int64_t n = 0;
  bool in_word = false;
  for (size_t i = 0; i < text->bytes.size(); i += char_bytes(text->bytes, i)) {
    const bool word = is_word(code_point(text->bytes, i));
    n += word && !in_word ? 1 : 0;
    in_word = word;
  }
  return n;
}

Value format_filter(Args& a) {
  const TextPtr text = subject(a);
  if (a.named.empty())
    return percent_format(a.ev, *text, Value::tuple(std::move(a.rest), &a.budget));
  if (!a.rest.empty())
    fault("format: can't handle positional and keyword arguments at the same time");
  DictBuilder names(&a.budget);
  for (auto& [name, value] : a.named)
    names.set(Value(make_text(name, &a.budget)), std::move(value));
  return percent_format(a.ev, *text, names.finish());
}

Value join_filter(Args& a) {
  const TextPtr separator = a.has(1) ? to_text(a[1], a.budget) : make_text("", &a.budget);
  TextBuilder out(a.budget);
  bool first = true;
  const auto it = iterate(a.ev, a[0]);
  while (const auto v = it->next()) {
    a.budget.step();
    if (!first) out.add(*separator);
    first = false;
    write_str(out, a.absent(2) ? *v : read_path(a.ev, *v, a[2], nullptr));
  }
  return out.finish();
}

Value reverse_filter(Args& a) {
  if (a[0].is_string()) return get_slice(a.ev, a[0], Value::none(), Value::none(), Value(-1));
  auto items = std::make_shared<Items>(collect(a.ev, a[0]));
  return generate(
      [items]() -> std::optional<Value> {
        if (items->empty()) return std::nullopt;
        Value v = std::move(items->back());
        items->pop_back();
        return v;
      },
      a[0].depth() + 1, a.budget);
}

constexpr Function kTextFilters[] = {
    {"upper", "value", 1, case_filter<Letters::upper>},
    {"lower", "value", 1, case_filter<Letters::lower>},
    {"capitalize", "value", 1, case_filter<Letters::capitalize>},
    {"title", "value", 1, title_filter},
    {"trim", "value,chars", 1, trim_filter},
    {"replace", "value,old,new,count", 3, replace_filter},
    {"center", "value,width", 1, center_filter},
    {"indent", "value,width,first,blank", 1, indent_filter},
    {"truncate", "value,length,killwords,end,leeway", 1, truncate_filter},
    {"wordcount", "value", 1, wordcount_filter},
    {"format", "value,*,**", 1, format_filter},
    {"string", "value", 1, [](Args& a) { return Value(subject(a)); }},
    {"join", "value,d,attribute", 1, join_filter},
    {"reverse", "value", 1, reverse_filter},
};

}  // namespace

FunctionTable text_filters() { return kTextFilters; }

}  // namespace rlx::jinja
