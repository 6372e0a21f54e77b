// Reads the text form of print.h. Text is hostile: every number, name and shape is checked.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.h"

namespace rlx {

/// What is made of a text is bounded by its length. Errors (format) as "origin:line: what was expected
/// and found"; also when a written shape differs from the inferred one, and when the whole breaks a rule
/// of stage.h. Empty lines and lines that start with # are skipped.
Graph parse_graph(std::string_view text, const std::string& origin);

}  // namespace rlx
