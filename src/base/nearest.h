// The nearest of some names, for messages about an unknown one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace rlx {

/// The candidate with the fewest edits (Levenshtein distance) from `word`, the first of equals;
/// empty when all are more than half the word away (at least 2 edits): a suggestion that far off is
/// no help.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// The end of a message about an unknown word: `: did you mean "x"?`, or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);
/// The same for a few candidates: without a near one, `: expected one of x, y, z`.
std::string did_you_mean_of(std::string_view word, std::span<const std::string> candidates);

}  // namespace rlx
