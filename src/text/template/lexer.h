// Cuts a template into tokens; whitespace control, trim_blocks and lstrip_blocks are done here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rlx::jinja {

/// Place in the source, counted from 1.
struct Place {
  int line = 1;
  int column = 1;
};

enum class TokenType {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  real,
  op,
  end
};

struct Token {
  TokenType type = TokenType::end;
  std::string text;  // of a string: the value; of an operator: its characters
  Place place;

  bool is_op(std::string_view s) const { return type == TokenType::op && text == s; }
  bool is_name(std::string_view s) const { return type == TokenType::name && text == s; }
};

/// Ends with a token of type end. Throws TemplateError (syntax).
std::vector<Token> tokenize(std::string_view source, const std::string& template_name);

/// Throws TemplateError (syntax): "name:line:column: message".
[[noreturn]] void syntax_error(const std::string& template_name, Place place,
                               const std::string& message);

}  // namespace rlx::jinja
