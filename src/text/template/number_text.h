// Numbers in Python's notation.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/template/value.h"

namespace rlx::jinja {

/// int(text, base): white space around, a sign, single underscores; nothing when it is no integer.
std::optional<Int> parse_int(std::string_view s, int base);
/// float(text).
std::optional<double> parse_float(std::string_view s);
/// The digits of `v` in `base` (2, 8, 10, 16), lower case, with a minus sign.
std::string digits_of(Int v, int base);
/// round(v, digits), ties to even on the exact value.
double round_float(double v, int64_t digits);
/// A float in C's notation %.<precision><type> with type one of e E f F g G, with '#' if
/// `alternate`.
std::string float_notation(double v, char type, int precision, bool alternate);

}  // namespace rlx::jinja
