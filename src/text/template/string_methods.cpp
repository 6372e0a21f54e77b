// Methods of strings that make strings or lists.
#include <algorithm>

#include "text/template/functions.h"
#include "text/template/operators.h"
#include "text/template/strings.h"
#include "text/template/unicode.h"

namespace rlx::jinja {
namespace {

const Text* optional_text(Args& a, size_t i) { return a.absent(i) ? nullptr : &a.text(i); }

template <Sides sides>
Value strip_method(Args& a) {
  return strip(a.text(0), optional_text(a, 1), sides, a.budget);
}

template <Letters letters>
Value case_method(Args& a) {
  return change_case(a.text(0), letters, a.budget);
}

Value split_method(Args& a) {
  return list_of(split(a.text(0), optional_text(a, 1), a.integer_or(2, -1), a.budget), a.budget);
}

Value rsplit_method(Args& a) {
  return list_of(split_right(a.text(0), optional_text(a, 1), a.integer_or(2, -1), a.budget),
                 a.budget);
}

Value splitlines_method(Args& a) {
  return list_of(split_lines(a.text(0), a.flag(1, false), a.budget), a.budget);
}

Value replace_method(Args& a) {
  return replace(a.text(0), a.text(1), a.text(2), a.integer_or(3, -1), a.budget);
}

Value join_method(Args& a) {
  TextBuilder out(a.budget);
  const Text& separator = a.text(0);
  bool first = true;
  const auto it = iterate(a.ev, a[1]);
  while (const auto v = it->next()) {
    a.budget.step();
    if (v->is_undefined()) undefined_fault(*v);
    if (!v->is_string()) fault("sequence item: expected str instance, {} found", v->type_name());
    if (!first) out.add(separator);
    first = false;
    out.add(v->text());
  }
  return out.finish(separator.markup);
}

template <bool right>
Value partition_method(Args& a) {
  const Text& text = a.text(0);
  const Text& separator = a.text(1);
  const auto parts =
      right ? split_right(text, &separator, 1, a.budget) : split(text, &separator, 1, a.budget);
  if (parts.size() == 2) return Value::tuple({parts[0], a[1], parts[1]}, &a.budget);
  const TextPtr empty = make_text("", &a.budget);
  if (right) return Value::tuple({empty, empty, a[0]}, &a.budget);
  return Value::tuple({a[0], empty, empty}, &a.budget);
}

template <Sides text_side>
Value pad_method(Args& a) {
  std::string fill = " ";
  if (a.has(2)) {
    if (a.text(2).length != 1)
      fault("{}: the fill character must be exactly one character long", a.name);
    fill = a.text(2).bytes;
  }
  return pad(a.text(0), a.integer(1), fill, text_side, a.budget);
}

Value zfill_method(Args& a) {
  const Text& text = a.text(0);
  const int64_t missing = a.integer(1) - static_cast<int64_t>(text.length);
  const bool sign = !text.bytes.empty() && (text.bytes[0] == '-' || text.bytes[0] == '+');
  TextBuilder out(a.budget);
  out.add(text, 0, sign ? 1 : 0);
  out.add_repeated("0", missing);
  out.add(text, sign ? 1 : 0, text.bytes.size());
  return out.finish();
}

Value remove_prefix(Args& a) {
  const Text &text = a.text(0), &part = a.text(1);
  if (!text.bytes.starts_with(part.bytes)) return a[0];
  return slice_bytes(text, part.bytes.size(), text.bytes.size(), a.budget);
}

Value remove_suffix(Args& a) {
  const Text &text = a.text(0), &part = a.text(1);
  if (!text.bytes.ends_with(part.bytes)) return a[0];
  return slice_bytes(text, 0, text.bytes.size() - part.bytes.size(), a.budget);
}

Value expand_tabs(Args& a) {
  const Text& text = a.text(0);
  const int64_t size = a.integer_or(1, 8);
  TextBuilder out(a.budget);
  int64_t column = 0;
  for (size_t i = 0; i < text.bytes.size();) {
    const size_t n = char_bytes(text.bytes, i);
    const char c = text.bytes[i];
    if (c == '\t') {
      const int64_t spaces = size > 0 ? size - column % size : 0;
      out.add_repeated(" ", spaces);
      column += spaces;
    } else {
      out.add(text, i, i + n);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    i += n;
  }
  return out.finish();
}

Value format_method(Args& a) {
  CallArgs args{std::move(a.rest), std::move(a.named)};
  return brace_format(a.ev, a.text(0), args);
}

Value format_map_method(Args& a) {
  CallArgs args;
  if (!a[1].is(Kind::dict)) fault("format_map expects a mapping, found '{}'", a[1].type_name());
  for (const auto& [key, value] : a[1].dict()->entries)
    if (key.is_string()) args.named.emplace_back(key.text().bytes, value);
  return brace_format(a.ev, a.text(0), args);
}

constexpr Function kMethods[] = {
    {"strip", "self,chars", 1, strip_method<Sides::both>},
    {"lstrip", "self,chars", 1, strip_method<Sides::left>},
    {"rstrip", "self,chars", 1, strip_method<Sides::right>},
    {"upper", "self", 1, case_method<Letters::upper>},
    {"lower", "self", 1, case_method<Letters::lower>},
    {"title", "self", 1, case_method<Letters::title>},
    {"capitalize", "self", 1, case_method<Letters::capitalize>},
    {"swapcase", "self", 1, case_method<Letters::swap>},
    {"casefold", "self", 1, case_method<Letters::fold>},
    {"split", "self,sep,maxsplit", 1, split_method},
    {"rsplit", "self,sep,maxsplit", 1, rsplit_method},
    {"splitlines", "self,keepends", 1, splitlines_method},
    {"replace", "self,old,new,count", 3, replace_method},
    {"join", "self,iterable", 2, join_method},
    {"partition", "self,sep", 2, partition_method<false>},
    {"rpartition", "self,sep", 2, partition_method<true>},
    {"center", "self,width,fillchar", 2, pad_method<Sides::both>},
    {"ljust", "self,width,fillchar", 2, pad_method<Sides::left>},
    {"rjust", "self,width,fillchar", 2, pad_method<Sides::right>},
    {"zfill", "self,width", 2, zfill_method},
    {"removeprefix", "self,prefix", 2, remove_prefix},
    {"removesuffix", "self,suffix", 2, remove_suffix},
    {"expandtabs", "self,tabsize", 1, expand_tabs},
    {"format", "self,*,**", 1, format_method},
    {"format_map", "self,mapping", 2, format_map_method},
};

}  // namespace

FunctionTable string_methods() { return kMethods; }

}  // namespace rlx::jinja
