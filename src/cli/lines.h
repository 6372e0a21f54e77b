// --lines: one JSON value a line on stdin, one a line on stdout, in order.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace rlx::cli {

/// Reads all lines. Errors (invalid_argument): a line that is empty or no JSON
/// value, or that `answer` refuses, with its number. Exit code 0.
int answer_lines(
    const std::function<nlohmann::ordered_json(const nlohmann::ordered_json&)>& answer);

/// The text of a file that a flag names; "-" is stdin. Errors (io) as read_file.
std::string read_text(const std::string& path);

/// For commands that need the model itself. Errors (usage): the file is one of `rlx compile`.
void refuse_compiled_file(const std::string& path);

}  // namespace rlx::cli
