// Regular expressions of tokenizer files. The files are written for Oniguruma
// (https://github.com/kkos/oniguruma, doc/RE); the pattern is rewritten for PCRE2, so that classes
// mean what the reference means by them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rlx::tokenizer {

/// A part of a text; `match` says whether the pattern matched it or it lies between matches.
struct Part {
  std::size_t begin, end;
  bool match;
};

/// The pattern in PCRE2's syntax. Errors: unsupported (a construct without counterpart, named).
std::string to_pcre2(std::string_view pattern);

/// A compiled pattern. Safe to use from several threads; matching works on the heap, not on the
/// stack, within limits.
class Regex {
 public:
  /// Errors: format (the pattern is malformed); unsupported (it uses what is not supported).
  explicit Regex(std::string_view pattern);

  /// Appends the parts of `text` (valid UTF-8): matches and what lies between, in order; nothing
  /// for an empty text. Errors: format (the pattern needs
  /// too many steps on this text).
  void split(std::string_view text, std::vector<Part>& parts) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

}  // namespace rlx::tokenizer
