// Between values, text and JSON.
#pragma once

#include <string>
#include <string_view>

#include "text/template/value.h"

namespace rlx::jinja {

/// A variable of the caller. Strings are user text, or template text when `trusted`.
Value from_json(const Json& json, bool trusted);
/// JSON text to a value; fails with the parser's reason.
Value parse_json(const Text& text, Budget& budget);

std::string int_text(Int v);
/// Python's repr of a float: the shortest text that reads back.
std::string float_text(double v);

/// str(v) and repr(v), appended.
void write_str(TextBuilder& out, const Value& v);
void write_repr(TextBuilder& out, const Value& v, int depth = 0);
TextPtr to_text(const Value& v, Budget& budget);

/// json.dumps.
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool multiline = false;
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
void write_json(TextBuilder& out, const Value& v, const JsonStyle& style, int level = 0);

}  // namespace rlx::jinja
