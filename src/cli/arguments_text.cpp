// Numbers, lists and suggestions of the command line.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "cli/arguments.h"

namespace rlx::cli {
namespace {

std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t up = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      diagonal = up;
    }
  }
  return row[b.size()];
}

}  // namespace

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

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t least = std::max<std::size_t>(2, word.size() / 2);  // farther than that is no help
  for (const std::string& c : candidates)
    if (const std::size_t d = edits(word, c); d <= least && (best.empty() || d < least)) {
      best = c;
      least = d;
    }
  return best;
}

}  // namespace rlx::cli
