// Lists of numbers as llama-bench takes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"

namespace rlx::cli {

/// Each text is a number, "first-last" (step 1), "first-last+step" or "first-last*factor", with first up to last.
/// Errors (usage): another form, more than 1000 values, a number outside `range`.
std::vector<std::int64_t> bench_values(std::string_view flag, const std::vector<std::string>& texts,
                                       IntegerRange range);

}  // namespace rlx::cli
