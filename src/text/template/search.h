// Searching and escaping in strings, in linear time.
#pragma once

#include <string>
#include <string_view>

#include "text/template/text.h"

namespace rlx::jinja {

/// Place of `needle` in `s` at or after `from`, or npos.
size_t find_bytes(Budget& budget, std::string_view s, std::string_view needle, size_t from);
/// Last place of `needle` that ends at or before `end`, or npos.
size_t find_last_bytes(Budget& budget, std::string_view s, std::string_view needle, size_t end);
/// HTML escapes, as markupsafe makes them.
void add_escaped(TextBuilder& out, const Text& text);

}  // namespace rlx::jinja
