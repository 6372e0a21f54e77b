// Numbers, lists and suggestions of the command line.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "cli/arguments.h"

namespace rlx::cli {
std::int64_t parse_integer(std::string_view flag, std::string_view text, IntegerRange range) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, ec] = std::from_chars(text.data(), end, value);
  if (text.empty() || ec != std::errc{} || at != end || value < range.least || value > range.most)
    fail(ErrorCode::usage, "{}: expected an integer {} to {}, found \"{}\"", flag, range.least,
         range.most, text);
  return value;
}

double parse_number(std::string_view flag, std::string_view text, NumberRange range) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, ec] = std::from_chars(text.data(), end, value);
  if (text.empty() || ec != std::errc{} || at != end ||
      !(value >= range.least && value <= range.most))
    fail(ErrorCode::usage, "{}: expected a number {} to {}, found \"{}\"", flag, range.least,
         range.most, text);
  return value;
}

std::vector<std::string> split_list(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t comma = text.find(separator);
    if (comma != 0 && !text.empty()) parts.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace rlx::cli
