// --lines: one JSON value a line on stdin, one a line on stdout, in order.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace rlx::cli {

/// Reads all lines. Errors (invalid_argument): a line that is empty or no JSON
/// value, or that `answer` refuses, with its number. Exit code 0.
int answer_lines(
    const std::function<nlohmann::ordered_json(const nlohmann::ordered_json&)>& answer);

/// The same for lines that are strings, several of them together: as many as have come, so that nobody who waits for an
/// answer waits for others, and as many as bound the memory. `answer` gives a line of JSON for each. Errors: as
/// answer_lines; what comes before a wrong line is answered.
int answer_texts(const std::function<std::vector<std::string>(std::span<const std::string>)>& answer);

/// The text of a file that a flag names; "-" is stdin. Errors (io) as read_file.
std::string read_text(const std::string& path);

/// For commands that need the model itself. Errors (usage): the file is one of `rlx compile`.
void refuse_compiled_file(const std::string& path);

}  // namespace rlx::cli
