// Character classes and case mappings as Python's str has them (Unicode; tables of utf8proc).
#pragma once

#include <string>
#include <string_view>

namespace rlx::jinja {

bool is_space(char32_t c);       ///< str.isspace, what strip() and split() remove
bool is_line_break(char32_t c);  ///< what splitlines() splits at
bool is_printable(char32_t c);   ///< str.isprintable, what repr() keeps
bool is_alpha(char32_t c);
bool is_digit(char32_t c);    ///< str.isdigit
bool is_decimal(char32_t c);  ///< str.isdecimal
bool is_numeric(char32_t c);  ///< str.isnumeric
bool is_lower(char32_t c);
bool is_upper(char32_t c);
bool is_title(char32_t c);
bool is_identifier(std::string_view s);

/// Full mappings; the result may have up to three characters.
std::u32string to_upper(char32_t c);
std::u32string to_lower(char32_t c);  ///< without the rule for a final sigma
std::u32string to_title(char32_t c);
std::u32string fold_case(char32_t c);
bool is_cased(char32_t c);
bool is_case_ignorable(char32_t c);

}  // namespace rlx::jinja
