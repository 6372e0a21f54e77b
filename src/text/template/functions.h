// Filters, tests, global functions and methods: rows of tables, called with bound arguments.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/value.h"

namespace rlx::jinja {

struct CallArgs {
  Items positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// Arguments bound to the parameters of a Function.
struct Args {
  Evaluator& ev;
  Budget& budget;
  std::string_view name;  // of the function, for messages
  std::vector<std::optional<Value>> values;
  Items rest;                                          // *args
  std::vector<std::pair<std::string, Value>> named{};  // **kwargs

  bool has(size_t i) const { return values[i].has_value(); }
  const Value& operator[](size_t i) const { return *values[i]; }
  /// Absent or none.
  bool absent(size_t i) const { return !has(i) || values[i]->is_none(); }
  int64_t integer(size_t i) const;  ///< fails when it is no integer
  int64_t integer_or(size_t i, int64_t fallback) const { return absent(i) ? fallback : integer(i); }
  bool flag(size_t i, bool fallback) const { return has(i) ? values[i]->truth() : fallback; }
  const Text& text(size_t i) const;  ///< fails when it is no string
};

/// `parameters`: names with commas between them, of which the first `required` must be given; "*"
/// takes more positional arguments, "**" more keyword arguments. Parameter 0 of filters, tests and
/// methods is the subject.
struct Function {
  std::string_view name;
  std::string_view parameters;
  size_t required;
  Value (*run)(Args&);
};

using FunctionTable = std::span<const Function>;

const Function* find_filter(std::string_view name);
const Function* find_test(std::string_view name);
const Function* find_global(std::string_view name);
FunctionTable global_table();
/// A method of strings, lists, tuples or mappings (the closed list); null when the type has none of
/// that name.
const Function* find_method(const Value& self, std::string_view name);
/// True for a method that the reference has and its sandbox refuses, such as list.append.
bool is_refused_method(const Value& self, std::string_view name);

/// Binds and runs; `subject` (if any) comes before the positional arguments.
Value call_function(Evaluator& ev, const Function& f, const Value* subject, CallArgs& args);
/// The function as a value, with its subject if it has one.
Value function_value(const Function& f, std::optional<Value> subject, Budget& budget);

// The tables, by file.
FunctionTable text_filters();
FunctionTable sequence_filters();
FunctionTable order_filters();
FunctionTable select_filters();
FunctionTable value_filters();
FunctionTable markup_filters();
FunctionTable layout_filters();
FunctionTable test_table();
FunctionTable string_methods();
FunctionTable string_search_methods();
FunctionTable string_class_methods();
FunctionTable dict_methods();
FunctionTable list_methods();
FunctionTable number_methods();

}  // namespace rlx::jinja
