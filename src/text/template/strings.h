// Operations on strings that methods and filters share.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/template/value.h"

namespace rlx::jinja {

enum class Sides { left, right, both };
/// Removes white space, or the characters of `chars` when given.
TextPtr strip(const Text& text, const Text* chars, Sides sides, Budget& budget);

enum class Letters { upper, lower, title, capitalize, swap, fold };
TextPtr change_case(const Text& text, Letters letters, Budget& budget);

/// str.replace; `count` negative: all.
TextPtr replace(const Text& text, const Text& from, const Text& to, int64_t count, Budget& budget);
/// str.splitlines.
std::vector<TextPtr> split_lines(const Text& text, bool keep_ends, Budget& budget);
/// str.split and str.rsplit; no separator: at white space. `most` negative: no bound.
std::vector<TextPtr> split(const Text& text, const Text* separator, int64_t most, Budget& budget);
std::vector<TextPtr> split_right(const Text& text, const Text* separator, int64_t most,
                                 Budget& budget);
/// Puts `fill` around the text to reach `width` characters.
TextPtr pad(const Text& text, int64_t width, std::string_view fill, Sides text_side,
            Budget& budget);
Value list_of(std::vector<TextPtr> parts, Budget& budget);

}  // namespace rlx::jinja
