#include "cli/bench_values.h"

#include "base/error.h"

namespace rlx::cli {
namespace {

constexpr std::size_t kMaxValues = 1000;

void add_range(std::string_view flag, std::string_view text, IntegerRange range,
               std::vector<std::int64_t>& out) {
  const std::size_t dash = text.find('-', 1), step_at = text.find_first_of("+*", 1);
  if (dash == std::string_view::npos) {
    out.push_back(parse_integer(flag, text, range));
    return;
  }
  const bool multiply = step_at != std::string_view::npos && text[step_at] == '*';
  const std::int64_t first = parse_integer(flag, text.substr(0, dash), range);
  const std::string_view last_text =
      text.substr(dash + 1, step_at == std::string_view::npos ? step_at : step_at - dash - 1);
  const std::int64_t last = parse_integer(flag, last_text, range);
  if (last < first) fail(ErrorCode::usage, "{}: expected a range that rises, found \"{}\"", flag, text);
  const std::int64_t step = step_at == std::string_view::npos
                                ? 1
                                : parse_integer(flag, text.substr(step_at + 1), {1, range.most});
  if (multiply && (step < 2 || first < 1))
    fail(ErrorCode::usage, "{}: expected a range from 1 up and a factor of 2 or more, found \"{}\"",
         flag, text);
  for (std::int64_t v = first; v <= last; v = multiply ? v * step : v + step) {
    out.push_back(v);
    if (out.size() > kMaxValues)
      fail(ErrorCode::usage, "{}: expected at most {} values, found more in \"{}\"", flag,
           kMaxValues, text);
  }
}

}  // namespace

std::vector<std::int64_t> bench_values(std::string_view flag, const std::vector<std::string>& texts,
                                       IntegerRange range) {
  std::vector<std::int64_t> out;
  for (const std::string& text : texts) add_range(flag, text, range, out);
  return out;
}

}  // namespace rlx::cli
