// Operators, subscripts, attributes and iteration with Python's meaning.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "text/template/ast.h"
#include "text/template/functions.h"

namespace rlx::jinja {

Value binary(Evaluator& ev, Op op, const Value& a, const Value& b);
Value negate(const Value& v);
/// a == b, a < b, a in b, ...
bool holds(Evaluator& ev, Op op, const Value& a, const Value& b);
bool contains(Evaluator& ev, const Value& container, const Value& item);

/// a.name and a[key] as Jinja's sandbox reads them; a missing one is undefined.
Value get_attribute(Evaluator& ev, const Value& v, std::string_view name);
Value get_item(Evaluator& ev, const Value& v, const Value& key);
/// a[start:stop:step]; each may be none.
Value get_slice(Evaluator& ev, const Value& v, const Value& start, const Value& stop,
                const Value& step);

/// Fails when the value cannot be iterated.
std::shared_ptr<Generator> iterate(Evaluator& ev, const Value& v);
Items collect(Evaluator& ev, const Value& v);
bool is_iterable(const Value& v);
/// len(v); nothing when the type has none.
std::optional<int64_t> length_of(const Value& v);
/// Python's message for the type of an object in an undefined value: "dict object".
std::string object_name(const Value& v);
[[noreturn]] void undefined_fault(const Value& v);

Int checked_int_add(Int a, Int b);
Int checked_int_mul(Int a, Int b);

/// Text % values, as Python formats.
Value percent_format(Evaluator& ev, const Text& format, const Value& values);
/// text.format(...).
Value brace_format(Evaluator& ev, const Text& format, CallArgs& args);
/// format(value, spec), appended.
void format_value(Evaluator& ev, TextBuilder& out, const Value& v, std::string_view spec);

}  // namespace rlx::jinja
