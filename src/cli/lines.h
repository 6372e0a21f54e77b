// --lines: one JSON value a line on stdin, one a line on stdout, in order.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>

namespace rlx::cli {

/// Reads all lines; empty ones are skipped. Errors (invalid_argument): a line that is no JSON
/// value, or that `answer` refuses, with its number. Exit code 0.
int answer_lines(
    const std::function<nlohmann::ordered_json(const nlohmann::ordered_json&)>& answer);

}  // namespace rlx::cli
