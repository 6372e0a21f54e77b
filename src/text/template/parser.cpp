#include "text/template/parser.h"

#include <algorithm>

#include "formats/byte_reader.h"
#include "text/template/parser_nesting.h"

namespace rlx::jinja {

Parser::Parser(std::vector<Token> tokens, Program& program)
    : tokens_(std::move(tokens)), program_(program) {
  program_.slot_loop = slot("loop");
  program_.slot_caller = slot("caller");
  program_.slot_varargs = slot("varargs");
  program_.slot_kwargs = slot("kwargs");
}

void Parser::error(Place place, const std::string& message) const {
  syntax_error(program_.name, place, message);
}

std::string Parser::describe() const {
  switch (now().type) {
    case TokenType::data:
      return "text";
    case TokenType::variable_begin:
      return "'{{'";
    case TokenType::variable_end:
      return "'}}'";
    case TokenType::block_begin:
      return "'{%'";
    case TokenType::block_end:
      return "'%}'";
    case TokenType::string:
      return "a string";
    case TokenType::end:
      return "the end of the template";
    default:
      return quote(now().text);
  }
}

bool Parser::skip_op(std::string_view s) { return now().is_op(s) ? (next(), true) : false; }
bool Parser::skip_name(std::string_view s) { return now().is_name(s) ? (next(), true) : false; }

void Parser::expect_op(std::string_view s) {
  if (!skip_op(s)) error(fmt::format("expected '{}', found {}", s, describe()));
}

void Parser::expect_name(std::string_view s) {
  if (!skip_name(s)) error(fmt::format("expected '{}', found {}", s, describe()));
}

std::string Parser::expect_any_name() {
  if (now().type != TokenType::name) error("expected a name, found " + describe());
  std::string text = now().text;
  next();
  return text;
}

void Parser::expect(TokenType type, std::string_view what) {
  if (now().type != type) error(fmt::format("expected {}, found {}", what, describe()));
  next();
}

Block Parser::parse() {
  Block body = statements({});
  if (now().type != TokenType::end) error("unexpected " + describe());
  if (!unknown_.empty()) error(unknown_.front().place, unknown_.front().message);
  return body;
}

StmtPtr Parser::make(StmtKind kind) const {
  auto s = std::make_unique<Stmt>();
  s->kind = kind;
  s->place = now().place;
  return s;
}

// Up to a block tag named in `ends` (left as the current token) or the end of the template.
Block Parser::statements(const Ends& ends) {
  const Nesting nesting(*this);
  Block out;
  while (now().type != TokenType::end) {
    if (now().type == TokenType::data) {
      StmtPtr s = make(StmtKind::data);
      s->text = make_text(now().text);
      out.push_back(std::move(s));
      next();
    } else if (now().type == TokenType::variable_begin) {
      next();
      StmtPtr s = make(StmtKind::print);
      s->expr = tuple_expression(true, nullptr, false);
      expect(TokenType::variable_end, "'}}'");
      out.push_back(std::move(s));
    } else {
      expect(TokenType::block_begin, "'{%'");
      if (now().type == TokenType::name &&
          std::find(ends.begin(), ends.end(), now().text) != ends.end())
        return out;
      if (now().is_name("print")) {
        print_statement(out);
      } else if (StmtPtr s = statement()) {
        out.push_back(std::move(s));
      }
      expect(TokenType::block_end, "'%}'");
    }
  }
  return out;
}

// The rest of an opening tag, then statements up to one of `ends`.
Block Parser::body(const Ends& ends) {
  skip_op(":");
  expect(TokenType::block_end, "'%}'");
  const Place place = now().place;
  Block out = statements(ends);
  if (now().type == TokenType::end) {
    std::string wanted;
    for (const auto e : ends) wanted += (wanted.empty() ? "'" : " or '") + std::string(e) + "'";
    error(place,
          "unexpected end of the template, expected " + wanted + " for the block that starts here");
  }
  return out;
}

StmtPtr Parser::statement() {
  if (now().type != TokenType::name) error("expected the name of a tag, found " + describe());
  const std::string& tag = now().text;
  if (tag == "for") return for_statement();
  if (tag == "if") return if_statement();
  if (tag == "set") return set_statement();
  if (tag == "macro") return macro_statement();
  if (tag == "call") return call_statement();
  if (tag == "filter") return filter_statement();
  if (tag == "with") return with_statement();
  if (tag == "generation" || tag == "block" || tag == "autoescape") return scope_statement();
  if (tag == "break") return loop_control(StmtKind::loop_break);
  if (tag == "continue") return loop_control(StmtKind::loop_continue);
  if (tag == "include" || tag == "extends" || tag == "import" || tag == "from")
    return unsupported_statement();
  error("unknown tag " + quote(tag));
}

void Parser::print_statement(Block& out) {
  next();
  bool first = true;
  while (now().type != TokenType::block_end) {
    if (!first) expect_op(",");
    first = false;
    StmtPtr s = make(StmtKind::print);
    s->expr = expression();
    out.push_back(std::move(s));
  }
}

Target Parser::one_target(bool with_namespace) {
  Target t;
  t.place = now().place;
  if (skip_op("(")) {
    t = target(false, nullptr);
    expect_op(")");
    return t;
  }
  const std::string name = expect_any_name();
  for (const char* reserved : {"true", "false", "none", "True", "False", "None"})
    if (name == reserved) error(t.place, "cannot assign to " + quote(name));
  t.slot = slot(name);
  if (with_namespace && skip_op(".")) t.attribute = expect_any_name();
  return t;
}

Target Parser::target(bool with_namespace, const char* end) {
  const Nesting nesting(*this);
  Target tuple;
  tuple.place = now().place;
  tuple.is_tuple = true;
  bool comma = false;
  while (true) {
    if (!tuple.parts.empty()) expect_op(",");
    if (tuple_end(end)) break;
    tuple.parts.push_back(one_target(with_namespace));
    if (!now().is_op(",")) break;
    comma = true;
  }
  if (comma) return tuple;
  if (tuple.parts.empty()) error("expected a name to assign to, found " + describe());
  Target single = std::move(tuple.parts.front());
  return single;
}

StmtPtr Parser::for_statement() {
  StmtPtr s = make(StmtKind::loop);
  next();
  s->targets.push_back(target(false, "in"));
  expect_name("in");
  s->expr = tuple_expression(false, "recursive", false);
  if (skip_name("if")) s->condition = expression();
  s->recursive = skip_name("recursive");
  const Soft soft(*this, false);
  ++loops_;
  s->body = body({"endfor", "else"});
  --loops_;
  if (skip_name("else")) s->otherwise = body({"endfor"});
  expect_name("endfor");
  return s;
}

StmtPtr Parser::if_statement() {
  StmtPtr s = make(StmtKind::conditional);
  const Soft soft(*this, true);
  next();
  while (true) {
    Branch branch;
    branch.condition = tuple_expression(false, nullptr, false);
    branch.body = body({"elif", "else", "endif"});
    s->branches.push_back(std::move(branch));
    if (skip_name("elif")) continue;
    if (skip_name("else")) s->otherwise = body({"endif"});
    expect_name("endif");
    return s;
  }
}

StmtPtr Parser::set_statement() {
  StmtPtr s = make(StmtKind::set);
  next();
  s->targets.push_back(target(true, nullptr));
  if (skip_op("=")) {
    s->expr = tuple_expression(true, nullptr, false);
    return s;
  }
  s->kind = StmtKind::set_block;
  while (skip_op("|")) s->expr = filter(std::move(s->expr));
  const Soft soft(*this, false);
  s->body = body({"endset"});
  next();
  return s;
}

void Parser::signature(Signature& out) {
  expect_op("(");
  while (!now().is_op(")")) {
    if (!out.parameters.empty()) expect_op(",");
    const Place place = now().place;
    const std::string name = expect_any_name();
    out.parameters.emplace_back(name, slot(name));
    if (skip_op("="))
      out.defaults.push_back(expression());
    else if (!out.defaults.empty())
      error(place, "a parameter without a default follows one with a default");
  }
  expect_op(")");
}

// A macro's body is a function of its own: no loop of the outside reaches into it.
void Parser::macro_body(Stmt& s, std::string_view end) {
  const int outer_loops = std::exchange(loops_, 0);
  const Soft soft(*this, false);
  macros_.push_back(s.signature.get());
  s.body = body({end});
  macros_.pop_back();
  loops_ = outer_loops;
  next();
}

StmtPtr Parser::macro_statement() {
  StmtPtr s = make(StmtKind::macro);
  next();
  s->signature = std::make_unique<Signature>();
  Target t;
  t.place = now().place;
  s->signature->name = expect_any_name();
  t.slot = slot(s->signature->name);
  s->targets.push_back(std::move(t));
  signature(*s->signature);
  macro_body(*s, "endmacro");
  return s;
}

StmtPtr Parser::call_statement() {
  StmtPtr s = make(StmtKind::call_block);
  next();
  s->signature = std::make_unique<Signature>();
  s->signature->name = "caller";
  if (now().is_op("(")) signature(*s->signature);
  s->expr = expression();
  if (s->expr->kind != ExprKind::call) error(s->place, "expected a call after 'call'");
  macro_body(*s, "endcall");
  return s;
}

StmtPtr Parser::filter_statement() {
  StmtPtr s = make(StmtKind::filter_block);
  next();
  s->expr = filter(nullptr);
  while (skip_op("|")) s->expr = filter(std::move(s->expr));
  const Soft soft(*this, false);
  s->body = body({"endfilter"});
  next();
  return s;
}

StmtPtr Parser::with_statement() {
  StmtPtr s = make(StmtKind::with);
  next();
  while (now().type != TokenType::block_end) {
    if (!s->targets.empty()) expect_op(",");
    s->targets.push_back(one_target(false));
    expect_op("=");
    s->values.push_back(expression());
  }
  const Soft soft(*this, false);
  s->body = body({"endwith"});
  next();
  return s;
}

StmtPtr Parser::scope_statement() {
  StmtPtr s = make(StmtKind::scope);
  const std::string tag = expect_any_name();
  std::string block_name;
  if (tag == "block") {
    block_name = expect_any_name();
    skip_name("scoped");
    skip_name("required");
  } else if (tag == "autoescape") {
    s->expr = expression();
  }
  // Blocks and HF's generation tag are functions of their own, as macros are.
  const int outer_loops = loops_;
  if (tag != "autoescape") loops_ = 0;
  const Soft soft(*this, false);
  s->body = body({tag == "block"        ? "endblock"
                  : tag == "generation" ? "endgeneration"
                                        : "endautoescape"});
  loops_ = outer_loops;
  next();
  if (tag == "block") skip_name(block_name);
  return s;
}

StmtPtr Parser::loop_control(StmtKind kind) {
  if (loops_ == 0) error("'" + now().text + "' outside of a loop");
  StmtPtr s = make(kind);
  next();
  return s;
}

StmtPtr Parser::unsupported_statement() {
  StmtPtr s = make(StmtKind::unsupported);
  s->text = make_text(now().text);
  while (now().type != TokenType::block_end && now().type != TokenType::end) next();
  return s;
}

std::shared_ptr<const Program> parse_program(std::string_view source, std::string name) {
  auto program = std::make_shared<Program>();
  program->name = std::move(name);
  Parser parser(tokenize(source, program->name), *program);
  program->body = parser.parse();
  return program;
}

}  // namespace rlx::jinja
