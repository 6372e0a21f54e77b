// Recursive descent over the tokens of a template; grammar of Jinja 3.1.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/template/ast.h"

namespace rlx::jinja {

class Parser {
 public:
  Parser(std::vector<Token> tokens, Program& program);
  Block parse();

 private:
  // Tokens.
  const Token& now() const { return tokens_[pos_]; }
  const Token& ahead() const { return tokens_[pos_ + 1 < tokens_.size() ? pos_ + 1 : pos_]; }
  void next() {
    if (pos_ + 1 < tokens_.size()) ++pos_;
  }
  bool skip_op(std::string_view s);
  bool skip_name(std::string_view s);
  void expect_op(std::string_view s);
  void expect_name(std::string_view s);
  std::string expect_any_name();
  void expect(TokenType type, std::string_view what);
  [[noreturn]] void error(const std::string& message) const { error(now().place, message); }
  [[noreturn]] void error(Place place, const std::string& message) const;
  std::string describe() const;

  // Statements.
  using Ends = std::vector<std::string_view>;
  Block statements(const Ends& ends);
  Block body(const Ends& ends);
  StmtPtr statement();
  StmtPtr make(StmtKind kind) const;
  StmtPtr for_statement();
  StmtPtr if_statement();
  StmtPtr set_statement();
  StmtPtr macro_statement();
  StmtPtr call_statement();
  StmtPtr filter_statement();
  StmtPtr with_statement();
  StmtPtr scope_statement();
  StmtPtr loop_control(StmtKind kind);
  StmtPtr unsupported_statement();
  void print_statement(Block& out);
  void signature(Signature& out);
  void macro_body(Stmt& s, std::string_view end);
  Target target(bool with_namespace, const char* end);
  Target one_target(bool with_namespace);

  // Expressions, from loose to tight.
  ExprPtr expression();
  ExprPtr tuple_expression(bool with_condition, const char* end, bool parentheses);
  ExprPtr conditional();
  ExprPtr logical_or();
  ExprPtr logical_and();
  ExprPtr logical_not();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concat();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filter);
  ExprPtr primary();
  ExprPtr list();
  ExprPtr dict();
  ExprPtr number();
  ExprPtr name(const Token& token);
  ExprPtr postfix(ExprPtr e);
  ExprPtr filters(ExprPtr e);
  ExprPtr filter(ExprPtr e);
  ExprPtr test(ExprPtr e);
  ExprPtr subscript(ExprPtr e);
  ExprPtr subscribed();
  ExprPtr call(ExprPtr e);
  std::unique_ptr<Arguments> arguments();
  using Rule = ExprPtr (Parser::*)();
  ExprPtr chain(ExprKind kind, Rule operand, bool (Parser::*take)(Op&));
  bool take_comparison(Op& op);
  bool take_sum(Op& op);
  bool take_product(Op& op);
  bool take_power(Op& op);
  bool tuple_end(const char* end) const;

  ExprPtr make(ExprKind kind, Place place) const;
  ExprPtr make(ExprKind kind, Place place, ExprPtr child) const;
  void adopt(Expr& parent, ExprPtr child) const;
  void measure(Expr& parent, const Expr* child) const;
  int slot(const std::string& name);

  class Nesting;
  std::vector<Token> tokens_;
  Program& program_;
  std::unordered_map<std::string, int> slots_;
  size_t pos_ = 0;
  int depth_ = 0;
  int loops_ = 0;
  std::vector<Signature*> macros_;

  // An unknown filter or test is an error at once, but one in an if branch or a conditional
  // expression only when it runs (as in Jinja, where templates rely on it).
  void check_known(bool known, std::string_view what, const std::string& name, Place place);
  class Soft;
  struct Unknown {
    Place place;
    std::string message;
  };
  std::vector<Unknown> unknown_;
  bool soft_ = false;
};

}  // namespace rlx::jinja
