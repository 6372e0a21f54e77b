// The text of sizes: the inverse of Dim::text().
#include <cctype>
#include <charconv>

#include "base/error.h"
#include "tensor/dim.h"

namespace rlx {
namespace {

class DimParser {
 public:
  explicit DimParser(std::string_view text) : text_(text) {}
  Dim whole() {
    const Dim d = sum(0);
    skip();
    if (at_ != text_.size()) error("expected the end");
    return d;
  }

 private:
  [[noreturn]] void error(std::string_view what) const {
    fail(ErrorCode::format, "size \"{}\": {} at position {}", text_, what, at_);
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::int64_t integer() {
    skip();
    std::int64_t v = 0;
    const auto [end, ec] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (ec == std::errc::result_out_of_range) error("expected an integer of 64 bits");
    if (ec != std::errc{}) error("expected an integer");
    at_ = static_cast<std::size_t>(end - text_.data());
    return v;
  }
  Dim sum(int depth) {
    if (depth > 32) error("nested too deeply");
    Dim d = product(depth);
    for (;;) {
      if (take('+'))
        d = d + product(depth);
      else if (take('-'))
        d = d - product(depth);
      else
        return d;
    }
  }
  Dim product(int depth) {
    Dim d = factor(depth);
    while (take('*')) d = d * factor(depth);
    return d;
  }
  Dim factor(int depth) {
    skip();
    if (at_ >= text_.size()) error("expected a size");
    if (std::isdigit(static_cast<unsigned char>(text_[at_])) || text_[at_] == '-')
      return Dim(integer());
    std::size_t end = at_;
    while (end < text_.size() &&
           (std::islower(static_cast<unsigned char>(text_[end])) || text_[end] == '_' ||
            std::isdigit(static_cast<unsigned char>(text_[end]))))
      ++end;
    const std::string_view word = text_.substr(at_, end - at_);
    if (word.empty()) error("expected a size");
    at_ = end;
    Dim base;
    if (word == "ceil_div" && take('(')) {
      const Dim of = sum(depth + 1);
      if (!take(',')) error("expected ','");
      base = ceil_div(of, integer());
      if (!take(')')) error("expected ')'");
    } else {
      base = Dim(Symbol::named(word));
    }
    if (!take('^')) return base;
    const std::int64_t e = integer();
    if (e < 1 || e > 64) error("expected an exponent of 1 to 64");
    Dim d = base;
    for (std::int64_t i = 1; i < e; ++i) d = d * base;
    return d;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Dim Dim::parse(std::string_view text) { return DimParser(text).whole(); }

}  // namespace rlx
