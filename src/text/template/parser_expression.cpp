#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "formats/byte_reader.h"
#include "text/template/functions.h"
#include "text/template/parser.h"
#include "text/template/parser_nesting.h"

namespace rlx::jinja {
namespace {

// Bounds the stack of whatever walks the tree.
constexpr int kMaxHeight = 200;

}  // namespace

ExprPtr Parser::make(ExprKind kind, Place place) const {
  auto e = std::make_unique<Expr>();
  e->kind = kind;
  e->place = place;
  return e;
}

ExprPtr Parser::make(ExprKind kind, Place place, ExprPtr child) const {
  ExprPtr e = make(kind, place);
  adopt(*e, std::move(child));
  return e;
}

void Parser::measure(Expr& parent, const Expr* child) const {
  if (child == nullptr) return;
  parent.height = std::max(parent.height, child->height + 1);
  if (parent.height > kMaxHeight)
    error(parent.place, fmt::format("the expression is nested deeper than {} levels", kMaxHeight));
}

void Parser::adopt(Expr& parent, ExprPtr child) const {
  measure(parent, child.get());
  parent.children.push_back(std::move(child));
}

int Parser::slot(const std::string& name) {
  const auto [it, fresh] = slots_.try_emplace(name, static_cast<int>(program_.names.size()));
  if (fresh) program_.names.push_back(name);
  return it->second;
}

void Parser::check_known(bool known, std::string_view what, const std::string& name, Place place) {
  if (!known && !soft_) unknown_.push_back({place, fmt::format("no {} named '{}'", what, name)});
}

bool Parser::tuple_end(const char* end) const {
  if (now().type == TokenType::variable_end || now().type == TokenType::block_end ||
      now().is_op(")"))
    return true;
  return end != nullptr && now().is_name(end);
}

ExprPtr Parser::tuple_expression(bool with_condition, const char* end, bool parentheses) {
  const Place place = now().place;
  ExprPtr tuple = make(ExprKind::tuple, place);
  bool comma = false;
  while (true) {
    if (!tuple->children.empty()) expect_op(",");
    if (tuple_end(end)) break;
    adopt(*tuple, with_condition ? expression() : logical_or());
    if (!now().is_op(",")) break;
    comma = true;
  }
  if (comma) return tuple;
  if (!tuple->children.empty()) return std::move(tuple->children.front());
  if (!parentheses) error("expected an expression, found " + describe());
  return tuple;
}

ExprPtr Parser::expression() { return conditional(); }

ExprPtr Parser::conditional() {
  const Nesting nesting(*this);
  const size_t known = unknown_.size();
  ExprPtr value = logical_or();
  while (now().is_name("if")) {
    ExprPtr e = make(ExprKind::conditional, now().place);
    next();
    ExprPtr condition = logical_or();
    ExprPtr otherwise = skip_name("else") ? conditional() : nullptr;
    adopt(*e, std::move(value));
    adopt(*e, std::move(condition));
    adopt(*e, std::move(otherwise));
    value = std::move(e);
    unknown_.resize(known);
  }
  return value;
}

ExprPtr Parser::logical_or() {
  ExprPtr left = logical_and();
  if (!now().is_name("or")) return left;
  ExprPtr e = make(ExprKind::logical_or, now().place, std::move(left));
  while (skip_name("or")) adopt(*e, logical_and());
  return e;
}

ExprPtr Parser::logical_and() {
  ExprPtr left = logical_not();
  if (!now().is_name("and")) return left;
  ExprPtr e = make(ExprKind::logical_and, now().place, std::move(left));
  while (skip_name("and")) adopt(*e, logical_not());
  return e;
}

ExprPtr Parser::logical_not() {
  if (!now().is_name("not")) return comparison();
  const Nesting nesting(*this);
  const Place place = now().place;
  next();
  return make(ExprKind::logical_not, place, logical_not());
}

ExprPtr Parser::chain(ExprKind kind, Rule operand, bool (Parser::*take)(Op&)) {
  ExprPtr left = (this->*operand)();
  ExprPtr e;
  Op op{};
  for (Place place = now().place; (this->*take)(op); place = now().place) {
    if (!e) e = make(kind, place, std::move(left));
    e->ops.push_back(op);
    adopt(*e, (this->*operand)());
  }
  return e ? std::move(e) : std::move(left);
}

bool Parser::take_comparison(Op& op) {
  if (skip_name("in")) return op = Op::in, true;
  if (now().is_name("not") && ahead().is_name("in")) {
    next();
    next();
    return op = Op::not_in, true;
  }
  if (now().type != TokenType::op) return false;
  const std::string& t = now().text;
  if (t == "==")
    op = Op::eq;
  else if (t == "!=")
    op = Op::ne;
  else if (t == "<")
    op = Op::lt;
  else if (t == "<=")
    op = Op::le;
  else if (t == ">")
    op = Op::gt;
  else if (t == ">=")
    op = Op::ge;
  else
    return false;
  next();
  return true;
}

bool Parser::take_sum(Op& op) {
  if (skip_op("+")) return op = Op::add, true;
  if (skip_op("-")) return op = Op::sub, true;
  return false;
}

bool Parser::take_product(Op& op) {
  if (skip_op("*")) return op = Op::mul, true;
  if (skip_op("/")) return op = Op::div, true;
  if (skip_op("//")) return op = Op::floor_div, true;
  if (skip_op("%")) return op = Op::mod, true;
  return false;
}

bool Parser::take_power(Op& op) { return skip_op("**") ? (op = Op::pow, true) : false; }

ExprPtr Parser::comparison() {
  return chain(ExprKind::comparison, &Parser::sum, &Parser::take_comparison);
}
ExprPtr Parser::sum() { return chain(ExprKind::arithmetic, &Parser::concat, &Parser::take_sum); }
ExprPtr Parser::product() {
  return chain(ExprKind::arithmetic, &Parser::power, &Parser::take_product);
}

ExprPtr Parser::concat() {
  ExprPtr left = product();
  if (!now().is_op("~")) return left;
  ExprPtr e = make(ExprKind::concat, now().place, std::move(left));
  while (skip_op("~")) adopt(*e, product());
  return e;
}

ExprPtr Parser::power() {
  // Left-associative, as in Jinja (not as in Python).
  ExprPtr left = unary(true);
  ExprPtr e;
  Op op{};
  for (Place place = now().place; take_power(op); place = now().place) {
    if (!e) e = make(ExprKind::arithmetic, place, std::move(left));
    e->ops.push_back(op);
    adopt(*e, unary(true));
  }
  return e ? std::move(e) : std::move(left);
}

ExprPtr Parser::unary(bool with_filter) {
  const Nesting nesting(*this);
  const Place place = now().place;
  ExprPtr e;
  if (skip_op("-"))
    e = make(ExprKind::negate, place, unary(false));
  else if (skip_op("+"))
    e = make(ExprKind::plus, place, unary(false));
  else
    e = primary();
  e = postfix(std::move(e));
  return with_filter ? filters(std::move(e)) : std::move(e);
}

ExprPtr Parser::name(const Token& token) {
  ExprPtr e = make(ExprKind::constant, token.place);
  const std::string& t = token.text;
  if (t == "true" || t == "True")
    e->value = true;
  else if (t == "false" || t == "False")
    e->value = false;
  else if (t != "none" && t != "None") {
    e->kind = ExprKind::name;
    e->text = t;
    e->slot = slot(t);
    for (Signature* s : macros_) {
      if (t == "caller") s->uses_caller = true;
      if (t == "varargs") s->uses_varargs = true;
      if (t == "kwargs") s->uses_kwargs = true;
    }
  }
  return e;
}

ExprPtr Parser::number() {
  ExprPtr e = make(ExprKind::constant, now().place);
  const std::string& t = now().text;
  if (now().type == TokenType::real) {
    double d = 0;
    const auto r = std::from_chars(t.data(), t.data() + t.size(), d);
    if (r.ec == std::errc::result_out_of_range) d = std::strtod(t.c_str(), nullptr);
    e->value = d;
  } else {
    const char kind = t.size() > 1 ? static_cast<char>(t[1] | 0x20) : '0';
    const int base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
    Int n = 0;
    for (const char c : t.substr(base == 10 ? 0 : 2)) {
      const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
      if (__builtin_mul_overflow(n, Int{base}, &n) || __builtin_add_overflow(n, Int{digit}, &n))
        error("the integer " + quote(t) + " does not fit in 128 bits");
    }
    e->value = Value(n);
  }
  next();
  return e;
}

ExprPtr Parser::primary() {
  const Token& token = now();
  switch (token.type) {
    case TokenType::name:
      next();
      return name(token);
    case TokenType::integer:
    case TokenType::real:
      return number();
    case TokenType::string: {
      ExprPtr e = make(ExprKind::constant, token.place);
      std::string text;
      for (; now().type == TokenType::string; next()) text += now().text;
      e->value = Value(make_text(std::move(text)));
      return e;
    }
    default:
      break;
  }
  if (skip_op("(")) {
    ExprPtr e = tuple_expression(true, nullptr, true);
    expect_op(")");
    return e;
  }
  if (token.is_op("[")) return list();
  if (token.is_op("{")) return dict();
  // The end has an article where it is "found", none where it is "unexpected".
  error(token.type == TokenType::end ? "unexpected end of the template"
                                     : "unexpected " + describe());
}

ExprPtr Parser::list() {
  ExprPtr e = make(ExprKind::list, now().place);
  expect_op("[");
  while (!now().is_op("]")) {
    if (!e->children.empty()) expect_op(",");
    if (now().is_op("]")) break;
    adopt(*e, expression());
  }
  expect_op("]");
  return e;
}

ExprPtr Parser::dict() {
  ExprPtr e = make(ExprKind::dict, now().place);
  expect_op("{");
  while (!now().is_op("}")) {
    if (!e->children.empty()) expect_op(",");
    if (now().is_op("}")) break;
    adopt(*e, expression());
    expect_op(":");
    adopt(*e, expression());
  }
  expect_op("}");
  return e;
}

ExprPtr Parser::postfix(ExprPtr e) {
  while (true) {
    if (now().is_op(".") || now().is_op("["))
      e = subscript(std::move(e));
    else if (now().is_op("("))
      e = call(std::move(e));
    else
      return e;
  }
}

ExprPtr Parser::filters(ExprPtr e) {
  while (true) {
    if (now().is_op("|")) {
      next();
      e = filter(std::move(e));
    } else if (now().is_name("is")) {
      e = test(std::move(e));
    } else if (now().is_op("(")) {
      e = call(std::move(e));
    } else {
      return e;
    }
  }
}

ExprPtr Parser::filter(ExprPtr e) {
  ExprPtr f = make(ExprKind::filter, now().place, std::move(e));
  f->text = expect_any_name();
  while (skip_op(".")) f->text += "." + expect_any_name();
  check_known(find_filter(f->text) != nullptr, "filter", f->text, f->place);
  if (now().is_op("(")) {
    f->arguments = arguments();
    for (const auto& a : f->arguments->positional) measure(*f, a.get());
    for (const auto& [n, a] : f->arguments->named) measure(*f, a.get());
  }
  return f;
}

ExprPtr Parser::test(ExprPtr e) {
  const Place place = now().place;
  next();
  const bool negated = skip_name("not");
  ExprPtr t = make(ExprKind::test, place, std::move(e));
  t->text = expect_any_name();
  while (skip_op(".")) t->text += "." + expect_any_name();
  check_known(find_test(t->text) != nullptr, "test", t->text, place);
  const TokenType type = now().type;
  const bool operand = type == TokenType::name || type == TokenType::string ||
                       type == TokenType::integer || type == TokenType::real || now().is_op("[") ||
                       now().is_op("{");
  if (now().is_op("(")) {
    t->arguments = arguments();
  } else if (operand && !now().is_name("else") && !now().is_name("or") && !now().is_name("and")) {
    if (now().is_name("is")) error("tests with 'is' cannot be chained");
    t->arguments = std::make_unique<Arguments>();
    t->arguments->positional.push_back(postfix(primary()));
  }
  if (t->arguments)
    for (const auto& a : t->arguments->positional) measure(*t, a.get());
  return negated ? make(ExprKind::logical_not, place, std::move(t)) : std::move(t);
}

ExprPtr Parser::subscript(ExprPtr e) {
  const Place place = now().place;
  if (skip_op(".")) {
    if (now().type == TokenType::integer) {
      ExprPtr item = make(ExprKind::item, place, std::move(e));
      adopt(*item, number());
      return item;
    }
    if (now().type != TokenType::name)
      error("expected a name or a number after '.', found " + describe());
    ExprPtr attribute = make(ExprKind::attribute, place, std::move(e));
    attribute->text = now().text;
    next();
    return attribute;
  }
  expect_op("[");
  ExprPtr index = make(ExprKind::tuple, place);
  while (!now().is_op("]")) {
    if (!index->children.empty()) expect_op(",");
    adopt(*index, subscribed());
  }
  expect_op("]");
  if (index->children.size() == 1) index = std::move(index->children.front());
  ExprPtr item = make(ExprKind::item, place, std::move(e));
  adopt(*item, std::move(index));
  return item;
}

ExprPtr Parser::subscribed() {
  const Place place = now().place;
  ExprPtr first;
  if (!now().is_op(":")) {
    first = expression();
    if (!now().is_op(":")) return first;
  }
  ExprPtr slice = make(ExprKind::slice, place, std::move(first));
  for (int i = 0; i < 2; ++i) {
    const bool colon = skip_op(":");
    const bool absent = !colon || now().is_op(":") || now().is_op("]") || now().is_op(",");
    adopt(*slice, absent ? nullptr : expression());
  }
  return slice;
}

ExprPtr Parser::call(ExprPtr e) {
  ExprPtr c = make(ExprKind::call, now().place, std::move(e));
  c->arguments = arguments();
  for (const auto& a : c->arguments->positional) measure(*c, a.get());
  for (const auto& [n, a] : c->arguments->named) measure(*c, a.get());
  return c;
}

std::unique_ptr<Arguments> Parser::arguments() {
  const Place place = now().place;
  const auto ensure = [&](bool good) {
    if (!good) error(place, "invalid syntax for a function call");
  };
  auto out = std::make_unique<Arguments>();
  expect_op("(");
  bool comma = false;
  while (!now().is_op(")")) {
    if (comma) {
      expect_op(",");
      if (now().is_op(")")) break;
    }
    comma = true;
    if (skip_op("*")) {
      ensure(!out->star && !out->star_star);
      out->star = expression();
    } else if (skip_op("**")) {
      ensure(!out->star_star);
      out->star_star = expression();
    } else if (now().type == TokenType::name && ahead().is_op("=")) {
      ensure(!out->star_star);
      std::string key = now().text;
      next();
      next();
      for (const auto& [n, a] : out->named)
        if (n == key) error("keyword argument " + quote(key) + " is repeated");
      out->named.emplace_back(std::move(key), expression());
    } else {
      ensure(!out->star && !out->star_star && out->named.empty());
      out->positional.push_back(expression());
    }
  }
  expect_op(")");
  return out;
}

}  // namespace rlx::jinja
