// Filters about HTML and URLs.
#include <algorithm>

#include "text/template/convert.h"
#include "text/template/filters.h"
#include "text/template/search.h"
#include "text/template/strings.h"
#include "text/template/unicode.h"

namespace rlx::jinja {
namespace {

Value safe_filter(Args& a) {
  TextBuilder out(a.budget);
  write_str(out, a[0]);
  return out.finish(true);
}

TextPtr escaped(const Text& text, Budget& budget) {
  TextBuilder out(budget);
  add_escaped(out, text);
  return out.finish(true);
}

Value escape_filter(Args& a) {
  const TextPtr text = to_text(a[0], a.budget);
  return text->markup ? text : escaped(*text, a.budget);
}

// Tags and comments go, white space becomes single spaces, the five common entities are read.
Value striptags_filter(Args& a) {
  const TextPtr text = to_text(a[0], a.budget);
  const std::string_view s = text->bytes;
  TextBuilder bare(a.budget);
  for (size_t i = 0; i < s.size();) {
    const bool comment = s.substr(i, 4) == "<!--";
    const size_t end =
        s[i] == '<' ? find_bytes(a.budget, s, comment ? "-->" : ">", i) : std::string::npos;
    if (end == std::string::npos) {
      const size_t n = char_bytes(s, i);
      bare.add(*text, i, i + n);
      i += n;
    } else {
      i = end + (comment ? 3 : 1);
    }
  }
  TextPtr out = bare.finish();
  TextBuilder joined(a.budget);
  bool first = true;
  for (const TextPtr& word : split(*out, nullptr, -1, a.budget)) {
    if (!first) joined.add(' ');
    first = false;
    joined.add(*word);
  }
  out = joined.finish();
  constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&lt;", "<"},    {"&gt;", ">"},  {"&#34;", "\""},
      {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}};
  for (const auto& [from, to] : kEntities)
    out = replace(*out, *make_text(std::string(from)), *make_text(std::string(to)), -1, a.budget);
  return out;
}

void add_quoted(TextBuilder& out, const Text& text, bool query) {
  for (size_t i = 0; i < text.bytes.size(); ++i) {
    const char c = text.bytes[i];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter || c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !query))
      out.add(text, i, i + 1);
    else if (c == ' ' && query)
      out.add_derived("+", text, i);
    else
      out.add_derived(fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c))),
                      text, i);
  }
}

Value urlencode_filter(Args& a) {
  TextBuilder out(a.budget);
  if (a[0].is_string() || !is_iterable(a[0])) {
    add_quoted(out, *to_text(a[0], a.budget), false);
    return out.finish();
  }
  bool first = true;
  const auto add_pair = [&](const Value& key, const Value& value) {
    if (!first) out.add('&');
    first = false;
    add_quoted(out, *to_text(key, a.budget), true);
    out.add('=');
    add_quoted(out, *to_text(value, a.budget), true);
  };
  if (a[0].is(Kind::dict)) {
    for (const auto& [key, value] : a[0].dict()->entries) add_pair(key, value);
    return out.finish();
  }
  for (const Value& pair : collect(a.ev, a[0])) {
    const Items parts = collect(a.ev, pair);
    if (parts.size() != 2) fault("urlencode expects pairs");
    add_pair(parts[0], parts[1]);
  }
  return out.finish();
}

Value xmlattr_filter(Args& a) {
  if (!a[0].is(Kind::dict)) fault("xmlattr expects a mapping, found '{}'", a[0].type_name());
  TextBuilder out(a.budget);
  const bool space = a.flag(1, true);
  for (const auto& [key, value] : a[0].dict()->entries) {
    if (value.is_none() || value.is_undefined()) continue;
    const TextPtr name = to_text(key, a.budget);
    if (name->bytes.find_first_of(" \t\n\f\r/>=") != std::string::npos)
      fault("Invalid character in attribute name: '{}'", name->bytes);
    if (out.size() > 0 || space) out.add(' ');
    add_escaped(out, *name);
    out.add("=\"");
    const TextPtr text = to_text(value, a.budget);
    if (text->markup)
      out.add(*text);
    else
      add_escaped(out, *text);
    out.add('"');
  }
  return out.finish();
}

constexpr Function kMarkupFilters[] = {
    {"safe", "value", 1, safe_filter},
    {"escape", "value", 1, escape_filter},
    {"e", "value", 1, escape_filter},
    {"forceescape", "value", 1,
     [](Args& a) { return Value(escaped(*to_text(a[0], a.budget), a.budget)); }},
    {"striptags", "value", 1, striptags_filter},
    {"urlencode", "value", 1, urlencode_filter},
    {"xmlattr", "value,autospace", 1, xmlattr_filter},
};

}  // namespace

FunctionTable markup_filters() { return kMarkupFilters; }

}  // namespace rlx::jinja
