#include "ir/op_impl.h"

#include <algorithm>
#include <charconv>

namespace rlx::detail {
namespace {

template <typename T>
std::string shortest(T v) {
  std::array<char, 64> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), v).ptr;
  return {buffer.data(), end};
}

// The whole text is one number that fits the type.
template <typename T>
bool parse_number(std::string_view text, T& v) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return false;
  v = value;
  return true;
}

}  // namespace

std::string print_value(bool v) { return v ? "true" : "false"; }
std::string print_value(float v) { return shortest(v); }
std::string print_value(double v) { return shortest(v); }
std::string print_value(std::int64_t v) { return shortest(v); }
std::string print_value(DType v) { return std::string(name(v)); }
std::string print_value(Layout v) { return std::string(name(v)); }

std::string print_value(Dim v) {
  std::string text = v.text();  // attributes end at a space
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  return text;
}

std::string print_value(GraphRef v) { return fmt::format("@{}", v.index); }

bool parse_value(std::string_view text, bool& v) {
  if (text != "true" && text != "false") return false;
  v = text == "true";
  return true;
}

bool parse_value(std::string_view text, float& v) { return parse_number(text, v); }
bool parse_value(std::string_view text, double& v) { return parse_number(text, v); }
bool parse_value(std::string_view text, std::int64_t& v) { return parse_number(text, v); }

bool parse_value(std::string_view text, DType& v) {
  const auto dtype = dtype_from_name(text);
  if (dtype) v = *dtype;
  return dtype.has_value();
}

bool parse_value(std::string_view text, Layout& v) {
  for (Layout layout : {Layout::plain, Layout::p16})
    if (name(layout) == text) {
      v = layout;
      return true;
    }
  return false;
}

bool parse_value(std::string_view text, GraphRef& v) {
  return text.starts_with('@') && parse_number(text.substr(1), v.index) && v.index >= 0;
}

bool parse_value(std::string_view text, Dim& v) {
  try {
    v = Dim::parse(text);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace rlx::detail
