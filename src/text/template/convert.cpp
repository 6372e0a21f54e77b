#include "text/template/convert.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "text/template/evaluator.h"
#include "text/template/unicode.h"

namespace rlx::jinja {
namespace {

constexpr int kMaxJsonDepth = 100;
constexpr int kMaxReprDepth = 128;  // only namespaces, which can hold themselves, come so far

// Templates make tokens such as <|user|> from these.
bool is_role(std::string_view s) {
  constexpr std::array<std::string_view, 9> kRoles = {"system",    "developer", "user",
                                                      "assistant", "tool",      "function",
                                                      "ipython",   "model",     "tool_response"};
  return std::find(kRoles.begin(), kRoles.end(), s) != kRoles.end();
}

Value json_string(const std::string& s, bool trusted) {
  return trusted ? Value(make_text(s)) : Value(make_user_text(s));
}

Value convert(const Json& json, bool trusted, int depth) {
  if (depth > kMaxJsonDepth)
    limit_fault("the variables are nested deeper than {} levels", kMaxJsonDepth);
  switch (json.type()) {
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
      return json.get<int64_t>();
    case Json::value_t::number_unsigned:
      return Value(static_cast<Int>(json.get<uint64_t>()));
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return json_string(json.get_ref<const std::string&>(), trusted);
    case Json::value_t::array: {
      Items items;
      items.reserve(json.size());
      for (const Json& element : json) items.push_back(convert(element, trusted, depth + 1));
      return Value::list(std::move(items), nullptr);
    }
    case Json::value_t::object: {
      DictBuilder dict(nullptr);
      for (const auto& [key, element] : json.items()) {
        const bool role =
            key == "role" && element.is_string() && is_role(element.get_ref<const std::string&>());
        dict.set(json_string(key, trusted), convert(element, trusted || role, depth + 1));
      }
      return dict.finish();
    }
    case Json::value_t::binary:
    case Json::value_t::discarded:
      fault("the variables hold a value that JSON does not have");
    default:
      return Value::none();
  }
}

// Same document, with strings that count as user text when any of `source` does.
bool any_user(const Text& source) { return !source.user.empty(); }

void write_quoted(TextBuilder& out, const Text& text) {
  const std::string& s = text.bytes;
  const bool twice = s.find('\'') != std::string::npos && s.find('"') == std::string::npos;
  const char quote = twice ? '"' : '\'';
  out.add(quote);
  for (size_t i = 0; i < s.size();) {
    size_t plain = i;
    while (plain < s.size() && s[plain] >= ' ' && s[plain] < 0x7F && s[plain] != quote &&
           s[plain] != '\\')
      ++plain;
    if (plain != i) out.add(text, i, plain);
    i = plain;
    if (i == s.size()) break;
    const size_t n = char_bytes(s, i);
    const char32_t c = code_point(s, i);
    if (c == static_cast<char32_t>(quote) || c == '\\')
      out.add_derived(std::string{'\\', s[i]}, text, i);
    else if (c == '\n')
      out.add_derived("\\n", text, i);
    else if (c == '\r')
      out.add_derived("\\r", text, i);
    else if (c == '\t')
      out.add_derived("\\t", text, i);
    else if (is_printable(c))
      out.add_derived(std::string_view(s).substr(i, n), text, i);
    else if (c < 0x100)
      out.add_derived(fmt::format("\\x{:02x}", static_cast<uint32_t>(c)), text, i);
    else if (c < 0x10000)
      out.add_derived(fmt::format("\\u{:04x}", static_cast<uint32_t>(c)), text, i);
    else
      out.add_derived(fmt::format("\\U{:08x}", static_cast<uint32_t>(c)), text, i);
    i += n;
  }
  out.add(quote);
}

void write_items(TextBuilder& out, const Items& items, int depth) {
  bool first = true;
  for (const Value& v : items) {
    if (!first) out.add(", ");
    first = false;
    write_repr(out, v, depth + 1);
  }
}

void write_dict(TextBuilder& out, const Dict& dict, int depth) {
  out.add('{');
  bool first = true;
  for (const auto& [k, v] : dict.entries) {
    if (!first) out.add(", ");
    first = false;
    write_repr(out, k, depth + 1);
    out.add(": ");
    write_repr(out, v, depth + 1);
  }
  out.add('}');
}

void write_view(TextBuilder& out, const Value& v, int depth) {
  out.add(v.type_name());
  out.add("([");
  bool first = true;
  for (const auto& [k, e] : v.view().dict->entries) {
    if (!first) out.add(", ");
    first = false;
    const bool items = v.view().part == DictView::Part::items;
    if (items) out.add('(');
    if (items || v.view().part == DictView::Part::keys) write_repr(out, k, depth + 1);
    if (items) out.add(", ");
    if (items || v.view().part == DictView::Part::values) write_repr(out, e, depth + 1);
    if (items) out.add(')');
  }
  out.add("])");
}

void write_object(TextBuilder& out, const Value& v, int depth) {
  const auto* ns = dynamic_cast<const Namespace*>(v.object().get());
  if (ns == nullptr) return out.add(v.object()->repr());
  out.add("<Namespace {");
  bool first = true;
  for (const auto& [k, e] : ns->entries) {
    if (!first) out.add(", ");
    first = false;
    write_repr(out, Value(make_text(k)), depth + 1);
    out.add(": ");
    write_repr(out, e, depth + 1);
  }
  out.add("}>");
}

std::string range_text(const Range& r) {
  std::string s = "range(" + int_text(r.start) + ", " + int_text(r.stop);
  if (r.step != 1) s += ", " + int_text(r.step);
  return s + ")";
}

void json_text(TextBuilder& out, const Text& text, bool ensure_ascii) {
  const std::string& s = text.bytes;
  out.add('"');
  for (size_t i = 0; i < s.size();) {
    // Stretches without anything to escape are copied in one go.
    size_t plain = i;
    while (plain < s.size()) {
      const auto c = static_cast<unsigned char>(s[plain]);
      if (c < 0x20 || c == '"' || c == '\\' || (ensure_ascii && c >= 0x7F)) break;
      ++plain;
    }
    if (plain != i) out.add(text, i, plain);
    i = plain;
    if (i == s.size()) break;
    const size_t n = char_bytes(s, i);
    const char32_t c = code_point(s, i);
    constexpr std::string_view kFrom = "\"\\\n\r\t\f\b", kTo = "\"\\nrtfb";
    const size_t k = c < 0x80 ? kFrom.find(static_cast<char>(c)) : std::string_view::npos;
    if (k != std::string_view::npos)
      out.add_derived(std::string{'\\', kTo[k]}, text, i);
    else if (c == 0x7F)
      out.add_derived("\x7f", text, i);
    else if (c < 0x10000)
      out.add_derived(fmt::format("\\u{:04x}", static_cast<uint32_t>(c)), text, i);
    else
      out.add_derived(
          fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + static_cast<uint32_t>((c - 0x10000) >> 10),
                      0xDC00 + static_cast<uint32_t>(c & 0x3FF)),
          text, i);
    i += n;
  }
  out.add('"');
}

void json_break(TextBuilder& out, const JsonStyle& style, int level) {
  if (!style.multiline) return;
  out.add('\n');
  out.add_repeated(style.indent, level);
}

std::string json_number(double d) {
  if (std::isnan(d)) return "NaN";
  if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
  return float_text(d);
}

void json_key(TextBuilder& out, const Value& key, bool ensure_ascii) {
  std::string text;
  switch (key.kind()) {
    case Kind::string:
      return json_text(out, key.text(), ensure_ascii);
    case Kind::boolean:
      text = key.boolean() ? "true" : "false";
      break;
    case Kind::none:
      text = "null";
      break;
    case Kind::integer:
      text = int_text(key.integer());
      break;
    case Kind::real:
      text = json_number(key.real());
      break;
    default:
      fault("keys must be str, int, float, bool or None, not {}", key.type_name());
  }
  out.add("\"" + text + "\"");
}

void json_dict(TextBuilder& out, const Dict& dict, const JsonStyle& style, int level) {
  if (dict.entries.empty()) return out.add("{}");
  std::vector<const std::pair<Value, Value>*> order;
  for (const auto& entry : dict.entries) order.push_back(&entry);
  if (style.sort_keys) {
    out.budget().step(static_cast<int64_t>(order.size()) * 8);
    std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
      return compare(a->first, b->first, "<") < 0;
    });
  }
  out.add('{');
  bool first = true;
  for (const auto* entry : order) {
    if (!first) out.add(style.item_separator);
    first = false;
    json_break(out, style, level + 1);
    json_key(out, entry->first, style.ensure_ascii);
    out.add(style.key_separator);
    write_json(out, entry->second, style, level + 1);
  }
  json_break(out, style, level);
  out.add('}');
}

void json_list(TextBuilder& out, const Items& items, const JsonStyle& style, int level) {
  if (items.empty()) return out.add("[]");
  out.add('[');
  bool first = true;
  for (const Value& v : items) {
    if (!first) out.add(style.item_separator);
    first = false;
    json_break(out, style, level + 1);
    write_json(out, v, style, level + 1);
  }
  json_break(out, style, level);
  out.add(']');
}

}  // namespace

Value from_json(const Json& json, bool trusted) { return convert(json, trusted, 0); }

Value parse_json(const Text& text, Budget& budget) {
  budget.work(text.bytes.size(), 16);
  // Deep text would be refused by convert anyway; nlohmann's parser itself does not recurse.
  try {
    return convert(Json::parse(text.bytes), !any_user(text), 0);
  } catch (const Json::exception& e) {
    fault("from_json: {}", e.what());
  }
}

std::string int_text(Int v) {
  if (v >= INT64_MIN && v <= INT64_MAX) return std::to_string(static_cast<int64_t>(v));
  std::string s;
  auto rest = v < 0 ? -static_cast<unsigned __int128>(v) : static_cast<unsigned __int128>(v);
  for (; rest != 0; rest /= 10) s.push_back(static_cast<char>('0' + static_cast<int>(rest % 10)));
  if (v < 0) s.push_back('-');
  std::reverse(s.begin(), s.end());
  return s;
}

std::string float_text(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  std::array<char, 40> buffer;
  const auto r =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), v, std::chars_format::scientific);
  std::string_view s(buffer.data(), static_cast<size_t>(r.ptr - buffer.data()));
  const size_t e = s.find('e');
  int exponent = 0;
  const size_t sign = s[e + 1] == '+' ? e + 2 : e + 1;
  std::from_chars(s.data() + sign, s.data() + s.size(), exponent);
  std::string digits, out;
  for (const char c : s.substr(0, e))
    if (c >= '0' && c <= '9') digits.push_back(c);
  if (s[0] == '-') out = "-";
  const int n = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (n > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0)
    return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (n <= exponent + 1)
    return out + digits + std::string(static_cast<size_t>(exponent + 1 - n), '0') + ".0";
  const auto whole = static_cast<size_t>(exponent + 1);
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

void write_str(TextBuilder& out, const Value& v) {
  if (v.is_string()) return out.add(v.text());
  if (!v.is_undefined()) write_repr(out, v);
}

void write_repr(TextBuilder& out, const Value& v, int depth) {
  if (depth > kMaxReprDepth) limit_fault("values are nested deeper than {} levels", kMaxReprDepth);
  out.budget().step();
  switch (v.kind()) {
    case Kind::undefined:
      return out.add("Undefined");
    case Kind::none:
      return out.add("None");
    case Kind::boolean:
      return out.add(v.boolean() ? "True" : "False");
    case Kind::integer:
      return out.add(int_text(v.integer()));
    case Kind::real:
      return out.add(float_text(v.real()));
    case Kind::string:
      if (v.text().markup) out.add("Markup(");
      write_quoted(out, v.text());
      if (v.text().markup) out.add(")");
      return;
    case Kind::list:
      out.add('[');
      write_items(out, v.items(), depth);
      return out.add(']');
    case Kind::tuple:
      out.add('(');
      write_items(out, v.items(), depth);
      return out.add(v.items().size() == 1 ? ",)" : ")");
    case Kind::dict:
      return write_dict(out, *v.dict(), depth);
    case Kind::range:
      return out.add(range_text(v.range()));
    case Kind::view:
      return write_view(out, v, depth);
    case Kind::generator:
      return out.add("<generator object>");
    case Kind::object:
      return write_object(out, v, depth);
  }
}

TextPtr to_text(const Value& v, Budget& budget) {
  if (v.is_string()) return v.text_ptr();
  TextBuilder out(budget);
  write_str(out, v);
  return out.finish();
}

void write_json(TextBuilder& out, const Value& v, const JsonStyle& style, int level) {
  out.budget().step();
  switch (v.kind()) {
    case Kind::none:
      return out.add("null");
    case Kind::boolean:
      return out.add(v.boolean() ? "true" : "false");
    case Kind::integer:
      return out.add(int_text(v.integer()));
    case Kind::real:
      return out.add(json_number(v.real()));
    case Kind::string:
      return json_text(out, v.text(), style.ensure_ascii);
    case Kind::list:
    case Kind::tuple:
      return json_list(out, v.items(), style, level);
    case Kind::dict:
      return json_dict(out, *v.dict(), style, level);
    default:
      fault("Object of type {} is not JSON serializable", v.type_name());
  }
}

}  // namespace rlx::jinja
