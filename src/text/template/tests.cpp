// The tests that follow `is`.
#include <cmath>

#include "text/template/convert.h"
#include "text/template/evaluator.h"
#include "text/template/functions.h"
#include "text/template/operators.h"
#include "text/template/unicode.h"

namespace rlx::jinja {
namespace {

bool remainder_is(Args& a, const Value& divisor, Int expected) {
  return equal(binary(a.ev, Op::mod, a[0], divisor), Value(expected));
}

template <Op op>
Value relation(Args& a) {
  return holds(a.ev, op, a[0], a[1]);
}

// len() and indexing, as strings, lists, tuples, mappings and ranges have.
bool is_sequence_like(const Value& v) {
  switch (v.kind()) {
    case Kind::undefined:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::range:
      return true;
    default:
      return false;
  }
}

bool same(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::list:
      return a.sequence() == b.sequence();
    case Kind::dict:
      return a.dict() == b.dict();
    case Kind::undefined:
      return false;
    default:
      return equal(a, b);
  }
}

Value is_name_in(const Value& v, const Function* (*find)(std::string_view)) {
  hash_value(v);  // fails for lists and mappings, as the reference does
  return v.is_string() && find(v.text().bytes) != nullptr;
}

// str.islower and str.isupper of the value as text.
template <bool (*wanted)(char32_t)>
Value all_cased(Args& a) {
  const TextPtr text = to_text(a[0], a.budget);
  a.budget.work(text->bytes.size(), 16);
  bool any = false;
  for (size_t i = 0; i < text->bytes.size(); i += char_bytes(text->bytes, i)) {
    const char32_t c = code_point(text->bytes, i);
    if (!is_cased(c)) continue;
    if (!wanted(c)) return false;
    any = true;
  }
  return any;
}

constexpr Function kTests[] = {
    {"defined", "value", 1, [](Args& a) { return Value(!a[0].is_undefined()); }},
    {"undefined", "value", 1, [](Args& a) { return Value(a[0].is_undefined()); }},
    {"none", "value", 1, [](Args& a) { return Value(a[0].is_none()); }},
    {"boolean", "value", 1, [](Args& a) { return Value(a[0].is(Kind::boolean)); }},
    {"true", "value", 1, [](Args& a) { return Value(a[0].is(Kind::boolean) && a[0].boolean()); }},
    {"false", "value", 1, [](Args& a) { return Value(a[0].is(Kind::boolean) && !a[0].boolean()); }},
    {"integer", "value", 1, [](Args& a) { return Value(a[0].is(Kind::integer)); }},
    {"float", "value", 1, [](Args& a) { return Value(a[0].is(Kind::real)); }},
    {"number", "value", 1, [](Args& a) { return Value(a[0].is_number()); }},
    {"string", "value", 1, [](Args& a) { return Value(a[0].is_string()); }},
    {"mapping", "value", 1, [](Args& a) { return Value(a[0].is(Kind::dict)); }},
    {"iterable", "value", 1, [](Args& a) { return Value(is_iterable(a[0])); }},
    {"sequence", "value", 1, [](Args& a) { return Value(is_sequence_like(a[0])); }},
    {"callable", "value", 1,
     [](Args& a) {
       return Value(a[0].is_undefined() || (a[0].is(Kind::object) && a[0].object()->callable()));
     }},
    {"escaped", "value", 1, [](Args& a) { return Value(a[0].is_string() && a[0].text().markup); }},
    {"filter", "value", 1, [](Args& a) { return is_name_in(a[0], find_filter); }},
    {"test", "value", 1, [](Args& a) { return is_name_in(a[0], find_test); }},
    {"odd", "value", 1, [](Args& a) { return Value(remainder_is(a, Value(2), 1)); }},
    {"even", "value", 1, [](Args& a) { return Value(remainder_is(a, Value(2), 0)); }},
    {"divisibleby", "value,num", 2, [](Args& a) { return Value(remainder_is(a, a[1], 0)); }},
    {"sameas", "value,other", 2, [](Args& a) { return Value(same(a[0], a[1])); }},
    {"lower", "value", 1, all_cased<is_lower>},
    {"upper", "value", 1, all_cased<is_upper>},
    {"in", "value,seq", 2, [](Args& a) { return Value(contains(a.ev, a[1], a[0])); }},
    {"eq", "value,other", 2, relation<Op::eq>},
    {"equalto", "value,other", 2, relation<Op::eq>},
    {"==", "value,other", 2, relation<Op::eq>},
    {"ne", "value,other", 2, relation<Op::ne>},
    {"!=", "value,other", 2, relation<Op::ne>},
    {"lt", "value,other", 2, relation<Op::lt>},
    {"lessthan", "value,other", 2, relation<Op::lt>},
    {"<", "value,other", 2, relation<Op::lt>},
    {"le", "value,other", 2, relation<Op::le>},
    {"<=", "value,other", 2, relation<Op::le>},
    {"gt", "value,other", 2, relation<Op::gt>},
    {"greaterthan", "value,other", 2, relation<Op::gt>},
    {">", "value,other", 2, relation<Op::gt>},
    {"ge", "value,other", 2, relation<Op::ge>},
    {">=", "value,other", 2, relation<Op::ge>},
};

}  // namespace

FunctionTable test_table() { return kTests; }

}  // namespace rlx::jinja
