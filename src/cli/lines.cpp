#include "cli/lines.h"

#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "cli/output.h"
#include "runtime/aot_place.h"

namespace rlx::cli {

using nlohmann::ordered_json;

namespace {

// One answer a line: leaving a line out would shift those that follow.
ordered_json parse_line(const std::string& line) {
  if (line.find_first_not_of(" \t\r") == std::string::npos)
    fail(ErrorCode::invalid_argument, "expected a JSON value, found an empty line");
  ordered_json value = ordered_json::parse(line, nullptr, false);
  if (value.is_discarded())
    fail(ErrorCode::invalid_argument, "expected a JSON value, found \"{}\"", line.substr(0, 60));
  return value;
}

// Nothing more has come: somebody may wait for the answer before the next question.
bool reader_waits() { return std::cin.rdbuf()->in_avail() <= 0; }

template <typename F>
void naming_lines(std::int64_t first, std::int64_t last, const F& f) {
  try {
    f();
  } catch (const Error& e) {
    throw Error(e.code(), first == last ? fmt::format("line {}: {}", last, e.what())
                                        : fmt::format("lines {} to {}: {}", first, last, e.what()));
  }
}

constexpr std::size_t kLinesTogether = 64, kBytesTogether = 256 << 10;

}  // namespace

int answer_lines(const std::function<ordered_json(const ordered_json&)>& answer) {
  std::ios::sync_with_stdio(false);
  std::string line;
  for (std::int64_t number = 1; std::getline(std::cin, line); ++number)
    naming_lines(number, number, [&] {
      write_json(answer(parse_line(line)));
      if (reader_waits()) out().flush();
    });
  return 0;
}

int answer_texts(const std::function<std::vector<std::string>(std::span<const std::string>)>& answer) {
  std::ios::sync_with_stdio(false);
  std::vector<std::string> texts;
  std::string line;
  std::size_t bytes = 0;
  std::int64_t number = 0;
  const auto answer_all = [&](std::int64_t last) {
    if (texts.empty()) return;
    naming_lines(last - static_cast<std::int64_t>(texts.size()) + 1, last, [&] {
      for (const std::string& json : answer(texts)) out().write(json + "\n");
    });
    out().flush();
    texts.clear();
    bytes = 0;
  };
  while (std::getline(std::cin, line)) {
    ++number;
    try {
      const ordered_json value = parse_line(line);
      if (!value.is_string()) fail(ErrorCode::invalid_argument, "expected a string, found {}", value.type_name());
      texts.push_back(value.get<std::string>());
    } catch (const Error& e) {
      answer_all(number - 1);
      throw Error(e.code(), fmt::format("line {}: {}", number, e.what()));
    }
    bytes += line.size();
    if (texts.size() == kLinesTogether || bytes > kBytesTogether || reader_waits()) answer_all(number);
  }
  answer_all(number);
  return 0;
}

std::string read_text(const std::string& path) {
  if (path != "-") return read_file(path);
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

void refuse_compiled_file(const std::string& path) {
  if (is_aot_bundle(path))
    fail(ErrorCode::usage, "{}: is a compiled model; expected the model that it was made from, {}", path,
         aot_bundle_source(path));
}

}  // namespace rlx::cli
