#include "text/template/operators.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "text/template/convert.h"
#include "text/template/evaluator.h"
#include "text/template/search.h"

namespace rlx::jinja {
namespace {

std::string_view symbol(Op op) {
  constexpr std::string_view kSymbols[] = {"+",  "-", "*",  "/", "//", "%",  "** or pow()", "==",
                                           "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kSymbols[static_cast<size_t>(op)];
}

[[noreturn]] void operand_fault(Op op, const Value& a, const Value& b) {
  if (a.is_undefined()) undefined_fault(a);
  if (b.is_undefined()) undefined_fault(b);
  std::string message = fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", symbol(op),
                                    a.type_name(), b.type_name());
  const bool concat = op == Op::add && (a.is_string() || b.is_string());
  if (op == Op::add && a.is_string())
    message = fmt::format("can only concatenate str (not \"{}\") to str", b.type_name());
  throw Fault(concat ? TemplateFault::concat : TemplateFault::other, message);
}

[[noreturn]] void overflow() { limit_fault("an integer does not fit in 128 bits"); }

Int floor_div(Int a, Int b) {
  if (b == 0) fault("integer division or modulo by zero");
  const Int q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

double float_mod(double a, double b) {
  if (b == 0) fault("float modulo by zero");
  double m = std::fmod(a, b);
  if (m != 0) {
    if ((b < 0) != (m < 0)) m += b;
  } else {
    m = std::copysign(0.0, b);
  }
  return m;
}

double float_floor_div(double a, double b) {
  if (b == 0) fault("float floor division by zero");
  const double m = float_mod(a, b);
  const double q = (a - m) / b;
  if (q == 0) return std::copysign(0.0, a / b);
  const double f = std::floor(q);
  return q - f > 0.5 ? f + 1 : f;
}

Value power(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral() && b.integer() >= 0) {
    Int result = 1, base = a.integer();
    Int exponent = b.integer();
    if (base == 0 || base == 1) return Value(exponent == 0 ? Int{1} : base);
    if (base == -1) return Value(exponent % 2 == 0 ? Int{1} : Int{-1});
    if (exponent > 128) overflow();
    for (; exponent > 0; --exponent) result = checked_int_mul(result, base);
    return Value(result);
  }
  const double x = a.real(), y = b.real();
  if (x == 0 && y < 0) fault("0.0 cannot be raised to a negative power");
  const double r = std::pow(x, y);
  if (std::isnan(r) && !std::isnan(x) && !std::isnan(y))
    fault("the result of ** is not a real number");
  if (std::isinf(r) && std::isfinite(x) && std::isfinite(y)) fault("the result of ** is too large");
  return r;
}

Value integer_arithmetic(Op op, Int a, Int b) {
  Int r = 0;
  switch (op) {
    case Op::add:
      return Value(checked_int_add(a, b));
    case Op::sub:
      if (__builtin_sub_overflow(a, b, &r)) overflow();
      return Value(r);
    case Op::mul:
      return Value(checked_int_mul(a, b));
    case Op::div:
      if (b == 0) fault("division by zero");
      return static_cast<double>(a) / static_cast<double>(b);
    case Op::floor_div:
      // The one quotient that does not fit.
      if (b == -1) return integer_arithmetic(Op::sub, 0, a);
      return Value(floor_div(a, b));
    default:
      if (b == -1) return 0;
      return Value(a - floor_div(a, b) * b);
  }
}

Value float_arithmetic(Op op, double a, double b) {
  switch (op) {
    case Op::add:
      return a + b;
    case Op::sub:
      return a - b;
    case Op::mul:
      return a * b;
    case Op::div:
      if (b == 0) fault("float division by zero");
      return a / b;
    case Op::floor_div:
      return float_floor_div(a, b);
    default:
      return float_mod(a, b);
  }
}

Value repeat(Evaluator& ev, const Value& v, Int count) {
  Budget& budget = ev.budget();
  const size_t size = v.is_string() ? v.text().bytes.size() : v.items().size();
  const size_t unit = v.is_string() ? 1 : sizeof(Value);
  if (count < 0 || size == 0) count = 0;
  if (count > static_cast<Int>(budget.limits().memory_bytes / (std::max<size_t>(size, 1) * unit)))
    limit_fault("a value of {} times {} elements needs more than {} bytes", int_text(count), size,
                budget.limits().memory_bytes);
  const auto n = static_cast<size_t>(count);
  if (v.is_string()) {
    TextBuilder out(budget);
    for (size_t i = 0; i < n; ++i) out.add(v.text());
    return out.finish(v.text().markup);
  }
  budget.step(static_cast<int64_t>(n * size / 16));
  Items items;
  items.reserve(n * size);
  for (size_t i = 0; i < n; ++i) items.insert(items.end(), v.items().begin(), v.items().end());
  return v.is(Kind::list) ? Value::list(std::move(items), &budget)
                          : Value::tuple(std::move(items), &budget);
}

Value join_items(Evaluator& ev, const Value& a, const Value& b) {
  ev.budget().step(static_cast<int64_t>((a.items().size() + b.items().size()) / 16));
  Items items = a.items();
  items.insert(items.end(), b.items().begin(), b.items().end());
  return a.is(Kind::list) ? Value::list(std::move(items), &ev.budget())
                          : Value::tuple(std::move(items), &ev.budget());
}

// Text that counts as markup escapes the other side.
Value join_texts(Evaluator& ev, const Text& a, const Text& b) {
  TextBuilder out(ev.budget());
  const bool markup = a.markup || b.markup;
  for (const Text* t : {&a, &b}) {
    if (markup && !t->markup)
      add_escaped(out, *t);
    else
      out.add(*t);
  }
  return out.finish(markup);
}

bool ordered(Op op, int c) {
  switch (op) {
    case Op::lt:
      return c < 0;
    case Op::le:
      return c <= 0;
    case Op::gt:
      return c > 0;
    default:
      return c >= 0;
  }
}

bool any_equal(Evaluator& ev, const Value& container, const Value& item) {
  const auto it = iterate(ev, container);
  while (const auto v = it->next()) {
    ev.budget().step();
    charge_compare(ev.budget(), *v, item);
    if (equal(*v, item)) return true;
  }
  return false;
}

}  // namespace

Int checked_int_add(Int a, Int b) {
  Int r = 0;
  if (__builtin_add_overflow(a, b, &r)) overflow();
  return r;
}

Int checked_int_mul(Int a, Int b) {
  Int r = 0;
  if (__builtin_mul_overflow(a, b, &r)) overflow();
  return r;
}

Value binary(Evaluator& ev, Op op, const Value& a, const Value& b) {
  if (op == Op::mod && a.is_string()) return percent_format(ev, a.text(), b);
  if (a.is_number() && b.is_number()) {
    if (op == Op::pow) return power(a, b);
    if (a.is_integral() && b.is_integral()) return integer_arithmetic(op, a.integer(), b.integer());
    return float_arithmetic(op, a.real(), b.real());
  }
  if (op == Op::add) {
    if (a.is_string() && b.is_string()) return join_texts(ev, a.text(), b.text());
    if (a.is_sequence() && a.kind() == b.kind()) return join_items(ev, a, b);
  }
  if (op == Op::mul) {
    const auto repeatable = [](const Value& v) { return v.is_string() || v.is_sequence(); };
    if (repeatable(a) && b.is_integral()) return repeat(ev, a, b.integer());
    if (a.is_integral() && repeatable(b)) return repeat(ev, b, a.integer());
  }
  operand_fault(op, a, b);
}

Value negate(const Value& v) {
  if (v.is_undefined()) undefined_fault(v);
  if (v.is_integral()) return integer_arithmetic(Op::sub, 0, v.integer());
  if (v.is(Kind::real)) return -v.real();
  fault("bad operand type for unary -: '{}'", v.type_name());
}

bool holds(Evaluator& ev, Op op, const Value& a, const Value& b) {
  charge_compare(ev.budget(), a, b);
  switch (op) {
    case Op::eq:
      return equal(a, b);
    case Op::ne:
      return !equal(a, b);
    case Op::in:
      return contains(ev, b, a);
    case Op::not_in:
      return !contains(ev, b, a);
    default:
      if (a.is_number() && b.is_number() && (std::isnan(a.real()) || std::isnan(b.real())))
        return false;
      return ordered(op, compare(a, b, symbol(op)));
  }
}

bool contains(Evaluator& ev, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::string:
      if (!item.is_string())
        fault("'in <string>' requires string as left operand, not {}", item.type_name());
      return find_bytes(ev.budget(), container.text().bytes, item.text().bytes, 0) !=
             std::string::npos;
    case Kind::dict:
      charge_hash(ev.budget(), item);
      return container.dict()->find(item) != nullptr;
    case Kind::undefined:
      return false;
    case Kind::view:
      if (container.view().part == DictView::Part::keys) {
        charge_hash(ev.budget(), item);
        return container.view().dict->find(item) != nullptr;
      }
      return any_equal(ev, container, item);
    default:
      if (!is_iterable(container))
        fault("argument of type '{}' is not iterable", container.type_name());
      return any_equal(ev, container, item);
  }
}

}  // namespace rlx::jinja
