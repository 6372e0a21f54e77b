// What several filter files share.
#pragma once

#include <functional>

#include "text/template/functions.h"
#include "text/template/operators.h"

namespace rlx::jinja {

/// A generator from a function that gives the next value.
Value generate(std::function<std::optional<Value>()> next, int depth, Budget& budget);

/// Reads "a.b.0" of a value, as the attribute argument of filters does; `fallback` replaces what is
/// undefined.
Value read_path(Evaluator& ev, const Value& v, const Value& path, const Value* fallback);

/// The key that sorting and comparing filters use: the attribute if any, strings in lower case
/// unless case matters.
Value sort_key(Args& a, const Value& v, const Value* attribute, bool case_sensitive);

/// The value as text that keeps markup (Jinja's soft_str).
TextPtr soft_text(const Value& v, Budget& budget);

}  // namespace rlx::jinja
