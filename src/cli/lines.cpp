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

int answer_lines(const std::function<ordered_json(const ordered_json&)>& answer) {
  std::ios::sync_with_stdio(false);
  std::string line;
  for (std::int64_t number = 1; std::getline(std::cin, line); ++number) {
    try {
      // One answer a line: leaving a line out would shift those that follow.
      if (line.find_first_not_of(" \t\r") == std::string::npos)
        fail(ErrorCode::invalid_argument, "expected a JSON value, found an empty line");
      const ordered_json value = ordered_json::parse(line, nullptr, false);
      if (value.is_discarded())
        fail(ErrorCode::invalid_argument, "expected a JSON value, found \"{}\"",
             line.substr(0, 60));
      write_json(answer(value));
      if (std::cin.rdbuf()->in_avail() <= 0)
        out().flush();  // somebody may wait for this answer before the next question
    } catch (const Error& e) {
      throw Error(e.code(), fmt::format("line {}: {}", number, e.what()));
    }
  }
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
