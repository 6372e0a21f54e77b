#include "text/template/lexer.h"

#include <algorithm>
#include <array>

#include "formats/byte_reader.h"
#include "text/template/template.h"
#include "text/template/text.h"
#include "text/template/unicode.h"

namespace rlx::jinja {
namespace {

// All line ends become "\n", and one at the end of the template goes away.
std::string normalize(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out.push_back(source[i]);
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_digit_char(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& name)
      : source_(normalize(source)), name_(name) {}

  std::vector<Token> run() {
    while (pos_ < source_.size()) root();
    push(TokenType::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void error(const std::string& message) const {
    syntax_error(name_, place_, message);
  }

  bool at(std::string_view s, size_t pos) const {
    return std::string_view(source_).substr(pos, s.size()) == s;
  }
  bool at(std::string_view s) const { return at(s, pos_); }

  void advance_to(size_t pos) {
    for (; pos_ < pos; ++pos_) {
      if (source_[pos_] == '\n') {
        ++place_.line;
        place_.column = 1;
      } else {
        ++place_.column;
      }
    }
  }

  void push(TokenType type, std::string text) {
    tokens_.push_back({type, std::move(text), place_});
  }

  size_t skip_space(size_t pos) const {
    while (pos < source_.size() && is_space(code_point(source_, pos)))
      pos += char_bytes(source_, pos);
    return pos;
  }

  // Data before a tag that starts at `end`, cut as the tag's sign and lstrip_blocks say.
  void data(size_t end, char sign, bool variable) {
    std::string_view text = std::string_view(source_).substr(pos_, end - pos_);
    if (sign == '-') {
      text = text.substr(0, stripped_size(text));
    } else if (sign != '+' && !variable) {
      const size_t line = text.rfind('\n') == std::string_view::npos ? 0 : text.rfind('\n') + 1;
      if ((line > 0 || line_starting_) && stripped_size(text.substr(line)) == 0)
        text = text.substr(0, line);
    }
    if (!text.empty()) push(TokenType::data, std::string(text));
    advance_to(end);
  }

  static size_t stripped_size(std::string_view text) {
    size_t last = 0;
    for (size_t i = 0; i < text.size();) {
      const size_t n = char_bytes(text, i);
      if (!is_space(code_point(text, i))) last = i + n;
      i += n;
    }
    return last;
  }

  char sign_at(size_t pos) const {
    return pos < source_.size() && (source_[pos] == '-' || source_[pos] == '+') ? source_[pos]
                                                                                : '\0';
  }

  void root() {
    size_t start = pos_;
    for (;; ++start) {
      start = source_.find('{', start);
      if (start == std::string::npos) {
        push(TokenType::data, source_.substr(pos_));
        return advance_to(source_.size());
      }
      if (at("{{", start) || at("{%", start) || at("{#", start)) break;
    }
    const char kind = source_[start + 1];
    const char sign = sign_at(start + 2);
    data(start, sign, kind == '{');
    if (kind == '%')
      if (const size_t end = raw_begin(start, sign); end != 0) return raw(end);
    if (kind == '#') return comment(start + 2 + (sign != 0));
    const bool variable = kind == '{';
    push(variable ? TokenType::variable_begin : TokenType::block_begin, "");
    advance_to(start + 2 + (sign != 0));
    tag(variable);
  }

  // The end of "{% raw %}" at `start`, or 0.
  size_t raw_begin(size_t start, char sign) const {
    size_t p = skip_space(start + 2 + (sign != 0));
    if (!at("raw", p)) return 0;
    p = skip_space(p + 3);
    if (at("-%}", p)) return skip_space(p + 3);
    return at("%}", p) ? p + 2 : 0;
  }

  void raw(size_t begin) {
    const Place opened = place_;
    line_starting_ = source_[begin - 1] == '\n';
    advance_to(begin);
    for (size_t p = source_.find("{%", begin); p != std::string::npos;
         p = source_.find("{%", p + 1)) {
      const char sign = sign_at(p + 2);
      size_t q = skip_space(p + 2 + (sign != 0));
      if (!at("endraw", q)) continue;
      q = skip_space(q + 6);
      const size_t end = tag_end(q, "%}", true);
      if (end == 0) continue;
      data(p, sign, false);
      return close(end);
    }
    syntax_error(name_, opened, "missing end of raw directive");
  }

  // The end of a closing delimiter at `p`, with what its sign and trim_blocks remove after it; 0
  // when there is none.
  size_t tag_end(size_t p, std::string_view delimiter, bool plus) const {
    if (plus && at("+", p) && at(delimiter, p + 1)) return p + 3;
    if (at("-", p) && at(delimiter, p + 1)) return skip_space(p + 3);
    if (!at(delimiter, p)) return 0;
    p += 2;
    return plus && p < source_.size() && source_[p] == '\n' ? p + 1 : p;
  }

  void close(size_t end) {
    advance_to(end);
    line_starting_ = source_[end - 1] == '\n';
  }

  void comment(size_t begin) {
    const Place opened = place_;
    for (size_t p = begin; p < source_.size(); ++p)
      if (const size_t end = tag_end(p, "#}", true); end != 0) return close(end);
    syntax_error(name_, opened, "missing end of comment tag");
  }

  void tag(bool variable) {
    std::string open;  // brackets not yet closed
    while (pos_ < source_.size()) {
      if (open.empty()) {
        if (const size_t end = tag_end(pos_, variable ? "}}" : "%}", !variable); end != 0) {
          push(variable ? TokenType::variable_end : TokenType::block_end, "");
          return close(end);
        }
      }
      if (const size_t p = skip_space(pos_); p != pos_) {
        advance_to(p);
        continue;
      }
      token(open);
    }
  }

  void token(std::string& open) {
    const char c = source_[pos_];
    if (is_digit_char(c)) return number();
    if (c == '\'' || c == '"') return string(c);
    if (const size_t end = name_end(); end != pos_) {
      std::string text = source_.substr(pos_, end - pos_);
      if (!is_identifier(text)) error("invalid character in identifier " + quote(text));
      push(TokenType::name, std::move(text));
      return advance_to(end);
    }
    op(open);
  }

  size_t name_end() const {
    size_t p = pos_;
    while (p < source_.size()) {
      const char32_t c = code_point(source_, p);
      if (c == 0xFFFD || !(c == '_' || is_alpha(c) || is_numeric(c))) break;
      p += char_bytes(source_, p);
    }
    return p;
  }

  // Digits with single underscores between them, from p.
  template <typename Accept>
  size_t digits(size_t p, Accept accept) const {
    if (p >= source_.size() || !accept(source_[p])) return p;
    ++p;
    while (p < source_.size()) {
      const size_t q = source_[p] == '_' ? p + 1 : p;
      if (q >= source_.size() || !accept(source_[q])) break;
      p = q + 1;
    }
    return p;
  }

  size_t float_end() const {
    if (pos_ > 0 && source_[pos_ - 1] == '.') return 0;
    const size_t whole = digits(pos_, is_digit_char);
    size_t p = whole;
    if (p < source_.size() && source_[p] == '.') {
      const size_t q = digits(p + 1, is_digit_char);
      if (q != p + 1) p = q;
    }
    if (p < source_.size() && (source_[p] == 'e' || source_[p] == 'E')) {
      size_t q = p + 1;
      if (q < source_.size() && (source_[q] == '+' || source_[q] == '-')) ++q;
      if (const size_t r = digits(q, is_digit_char); r != q) p = r;
    }
    return p == whole ? 0 : p;
  }

  size_t integer_end() const {
    if (source_[pos_] != '0') return digits(pos_, is_digit_char);
    const char base =
        pos_ + 1 < source_.size() ? static_cast<char>(source_[pos_ + 1] | 0x20) : '\0';
    const auto accept = [base](char c) {
      if (base == 'b') return c == '0' || c == '1';
      if (base == 'o') return c >= '0' && c <= '7';
      return is_digit_char(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
    };
    if (base == 'b' || base == 'o' || base == 'x') {
      const size_t p = pos_ + 2 < source_.size() && source_[pos_ + 2] == '_' ? pos_ + 3 : pos_ + 2;
      if (const size_t q = digits(p, accept); q != p) return q;
    }
    return digits(pos_, [](char c) { return c == '0'; });
  }

  void number() {
    size_t end = float_end();
    const TokenType type = end != 0 ? TokenType::real : TokenType::integer;
    if (end == 0) end = integer_end();
    std::string text = source_.substr(pos_, end - pos_);
    std::erase(text, '_');
    push(type, std::move(text));
    advance_to(end);
  }

  void string(char quote) {
    size_t p = pos_ + 1;
    while (p < source_.size() && source_[p] != quote) p += source_[p] == '\\' ? 2 : 1;
    if (p >= source_.size()) error("the string has no end");
    push(TokenType::string, unescape(std::string_view(source_).substr(pos_ + 1, p - pos_ - 1)));
    advance_to(p + 1);
  }

  // Python's unicode-escape rules.
  std::string unescape(std::string_view s) const {
    std::string out;
    for (size_t i = 0; i < s.size(); ++i) {
      if (s[i] != '\\' || i + 1 == s.size()) {
        out.push_back(s[i]);
        continue;
      }
      const char c = s[++i];
      constexpr std::string_view kNames = "abfnrtv\\'\"";
      constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\'\"";
      if (const size_t k = kNames.find(c); k != std::string_view::npos) {
        out.push_back(kValues[k]);
      } else if (c == '\n') {
        continue;
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        append_utf8(out, hex(s, i + 1, n));
        i += n;
      } else if (c >= '0' && c <= '7') {
        char32_t value = 0;
        size_t n = 0;
        for (; n < 3 && i + n < s.size() && s[i + n] >= '0' && s[i + n] <= '7'; ++n)
          value = value * 8 + static_cast<char32_t>(s[i + n] - '0');
        append_utf8(out, value);
        i += n - 1;
      } else if (c == 'N') {
        error("character names (\\N{...}) are not supported in strings");
      } else {
        out.push_back('\\');
        out.push_back(c);
      }
    }
    return out;
  }

  char32_t hex(std::string_view s, size_t at, size_t n) const {
    char32_t value = 0;
    for (size_t i = at; i < at + n; ++i) {
      const int c = i < s.size() ? s[i] : 0;
      const int low = c | 0x20;
      if (is_digit_char(static_cast<char>(c))) {
        value = value * 16 + static_cast<char32_t>(c - '0');
      } else if (low >= 'a' && low <= 'f') {
        value = value * 16 + static_cast<char32_t>(low - 'a' + 10);
      } else {
        error("a \\x, \\u or \\U escape in a string has too few digits");
      }
    }
    if (value > 0x10FFFF) error("a \\U escape in a string is above 10FFFF");
    return value;
  }

  void op(std::string& open) {
    constexpr std::array<std::string_view, 25> kOperators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ","};
    const auto found =
        std::find_if(kOperators.begin(), kOperators.end(), [&](auto s) { return at(s); });
    if (found == kOperators.end()) {
      if (source_[pos_] != ';')
        error("unexpected character " + quote(source_.substr(pos_, char_bytes(source_, pos_))));
      push(TokenType::op, ";");
      return advance_to(pos_ + 1);
    }
    const char c = (*found)[0];
    if (c == '(' || c == '[' || c == '{') {
      open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) error(std::string("unexpected '") + c + "'");
      if (open.back() != c)
        error(std::string("unexpected '") + c + "', expected '" + open.back() + "'");
      open.pop_back();
    }
    push(TokenType::op, std::string(*found));
    advance_to(pos_ + found->size());
  }

  std::string source_;
  const std::string& name_;
  std::vector<Token> tokens_;
  size_t pos_ = 0;
  Place place_;
  bool line_starting_ = true;
};

}  // namespace

void syntax_error(const std::string& template_name, Place place, const std::string& message) {
  throw TemplateError(TemplateFault::syntax, fmt::format("{}:{}:{}: {}", template_name, place.line,
                                                         place.column, message));
}

std::vector<Token> tokenize(std::string_view source, const std::string& template_name) {
  return Lexer(source, template_name).run();
}

}  // namespace rlx::jinja
