// Oniguruma's pattern syntax (doc/RE, Ruby style) to PCRE2's (pcre2pattern(3)). The differences
// that matter to text: \s has U+180E in PCRE2, \w lacks marks, script names mean script extensions,
// sets nest and intersect in Oniguruma only.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "formats/byte_reader.h"
#include "text/tokenizer/regex.h"

namespace rlx::tokenizer {
namespace {

constexpr std::string_view kSpace =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNotSpace =
    R"(\x00-\x08\x0e-\x1f\x21-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e})"
    R"(\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr std::string_view kHex = "0-9a-fA-F";
constexpr int kMaxNesting = 16;

/// Names that are no scripts, so that PCRE2 takes them as they are.
bool is_category(std::string_view name) {
  static constexpr std::array<std::string_view, 44> kNames = {
      "Any", "L",  "L&", "LC", "Lu",         "Ll",        "Lt",        "Lm",         "Lo",
      "M",   "Mn", "Mc", "Me", "N",          "Nd",        "Nl",        "No",         "P",
      "Pc",  "Pd", "Ps", "Pe", "Pi",         "Pf",        "Po",        "S",          "Sm",
      "Sc",  "Sk", "So", "Z",  "Zs",         "Zl",        "Zp",        "C",          "Cc",
      "Cf",  "Cn", "Co", "Cs", "Alphabetic", "Lowercase", "Uppercase", "White_Space"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

/// The long names of the categories, which Oniguruma knows and PCRE2 does not, and POSIX names.
std::string_view short_name(std::string_view name) {
  static constexpr std::array<std::array<std::string_view, 2>, 16> kLong = {
      {{"Letter", "L"},
       {"Mark", "M"},
       {"Number", "N"},
       {"Punctuation", "P"},
       {"Symbol", "S"},
       {"Separator", "Z"},
       {"Other", "C"},
       {"Uppercase_Letter", "Lu"},
       {"Lowercase_Letter", "Ll"},
       {"Decimal_Number", "Nd"},
       {"Alpha", "Alphabetic"},
       {"Digit", "Nd"},
       {"Upper", "Uppercase"},
       {"Lower", "Lowercase"},
       {"Space", "White_Space"},
       {"Titlecase_Letter", "Lt"}}};
  for (const auto& [from, to] : kLong) {
    if (name == from) return to;
  }
  return name;
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  std::string run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\') {
        out_ += escape(false);
      } else if (c == '[') {
        out_ += set(0).whole();
      } else if (c == '(') {
        group();
      } else {
        out_ += c;
        ++at_;
      }
    }
    return std::move(out_);
  }

 private:
  struct Set {
    std::string body;       ///< what stands between the brackets
    std::string lookahead;  ///< conditions of an intersection
    bool negated = false;

    std::string whole() const {
      if (body.empty()) return negated ? "(?s:.)" : "(?!)";
      const std::string plain = "[" + body + "]";
      if (lookahead.empty()) return negated ? "[^" + body + "]" : plain;
      if (negated) return "(?:(?!" + lookahead + plain + ")(?s:.))";
      return "(?:" + lookahead + plain + ")";
    }
  };

  [[noreturn]] void refuse(std::string_view what) const {
    fail(ErrorCode::unsupported, "pattern {}: {} is not supported (offset {})", quote(in_), what, at_);
  }

  bool next_is(std::string_view s) const { return in_.substr(at_, s.size()) == s; }

  /// An escape sequence, as text that stands outside a set or inside one.
  std::string escape(bool in_set) {
    if (at_ + 1 >= in_.size()) refuse("a backslash at the end");
    const char c = in_[at_ + 1];
    at_ += 2;
    const auto positive = [&](std::string_view body) {
      return in_set ? std::string(body) : "[" + std::string(body) + "]";
    };
    const auto negative = [&](std::string_view body) {
      if (in_set) refuse("a negated class within a set");
      return "[^" + std::string(body) + "]";
    };
    switch (c) {
      case 's':
        return positive(kSpace);
      case 'S':
        return positive(kNotSpace);
      case 'w':
        return positive(kWord);
      case 'W':
        return negative(kWord);
      case 'd':
        return "\\p{Nd}";
      case 'D':
        return "\\P{Nd}";
      case 'h':
        return positive(kHex);
      case 'H':
        return negative(kHex);
      case 'p':
      case 'P':
        return property(c == 'P');
      case 'u':
        return code_point();
      case 'C':
        refuse("\\C");
      default:
        return {'\\', c};
    }
  }

  std::string code_point() {
    const std::string_view digits = in_.substr(at_, 4);
    if (digits.size() != 4 ||
        digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) {
      refuse("\\u without four hexadecimal digits");
    }
    at_ += 4;
    return "\\x{" + std::string(digits) + "}";
  }

  std::string property(bool negated) {
    std::string_view name;
    if (at_ < in_.size() && in_[at_] == '{') {
      const std::size_t close = in_.find('}', at_);
      if (close == std::string_view::npos) refuse("\\p{ without }");
      name = in_.substr(at_ + 1, close - at_ - 1);
      at_ = close + 1;
    } else {
      name = in_.substr(at_, 1);
      at_ += name.size();
    }
    if (!name.empty() && name[0] == '^') {
      negated = !negated;
      name.remove_prefix(1);
    }
    if (name.substr(0, 2) == "Is") name.remove_prefix(2);
    name = short_name(name);
    if (name.find_first_of(":=") == std::string_view::npos && !is_category(name)) {
      return (negated ? "\\P{sc:" : "\\p{sc:") + std::string(name) + "}";
    }
    return (negated ? "\\P{" : "\\p{") + std::string(name) + "}";
  }

  /// "(" and what follows it as far as it is special: Ruby's (?m) is what others call (?s).
  void group() {
    out_ += in_[at_++];
    if (next_is("*")) refuse("a verb");
    if (!next_is("?")) return;
    out_ += in_[at_++];
    if (next_is("#")) return;
    while (at_ < in_.size() &&
           (in_[at_] == 'i' || in_[at_] == 'm' || in_[at_] == 'x' || in_[at_] == '-')) {
      out_ += in_[at_] == 'm' ? 's' : in_[at_];
      ++at_;
    }
  }

  /// A set, from its bracket on.
  Set set(int depth) {
    if (depth > kMaxNesting) refuse("a set nested that deep");
    Set result;
    ++at_;
    if (next_is("^")) {
      result.negated = true;
      ++at_;
    }
    for (bool first = true;; first = false) {
      if (at_ >= in_.size()) refuse("a set without its closing bracket");
      const char c = in_[at_];
      if (c == ']' && !first) break;
      if (c == '\\') {
        result.body += escape(true);
      } else if (c == '[' && next_is("[:")) {
        posix(result.body);
      } else if (c == '[') {
        nested(result, depth);
      } else if (next_is("&&")) {
        at_ += 2;
        result.lookahead += "(?=" + Set{result.body, "", false}.whole() + ")";
        result.body.clear();
      } else if (c == ']') {
        result.body += "\\]";
        ++at_;
      } else {
        result.body += c;
        ++at_;
      }
    }
    ++at_;
    return result;
  }

  void posix(std::string& body) {
    const std::size_t close = in_.find(":]", at_ + 2);
    if (close == std::string_view::npos) refuse("[: without :]");
    body += in_.substr(at_, close + 2 - at_);
    at_ = close + 2;
  }

  /// A set within a set: a union, or, alone on one side of &&, a condition.
  void nested(Set& outer, int depth) {
    const Set inner = set(depth + 1);
    if (!inner.negated && inner.lookahead.empty()) {
      outer.body += inner.body;
      return;
    }
    const bool alone = outer.body.empty() && (next_is("]") || next_is("&&"));
    if (!alone) refuse("a negated set in a union");
    outer.lookahead += "(?=" + inner.whole() + ")";
    if (next_is("&&")) {
      at_ += 2;
    } else {
      outer.body = R"(\x00-\x{10ffff})";
    }
  }

  std::string_view in_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string to_pcre2(std::string_view pattern) {
  // Without the lookbehind, each character of a run that does not end the line starts a search of
  // its own: quadratic. A match cannot begin within a run, since one from the run's start would
  // have been found.
  if (pattern == R"(\s+$)")
    return "(?<![" + std::string(kSpace) + "])[" + std::string(kSpace) + "]+$";
  return Translator(pattern).run();
}

}  // namespace rlx::tokenizer
