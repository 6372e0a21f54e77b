// Normalizers: rewriting a section of text before it is cut
// (https://huggingface.co/docs/tokenizers/api/normalizers).
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/unicode.h"

namespace rlx::tokenizer {

struct NormalFormStep {
  NormalForm form;
};
struct LowercaseStep {};
struct StripAccentsStep {};
struct StripStep {
  bool left, right;
};
struct PrependStep {
  std::string text;
};
struct ReplaceStep {
  TextPattern pattern;
  std::string content;
};
struct ByteCharsStep {};

using NormalizeStep = std::variant<NormalFormStep, LowercaseStep, StripAccentsStep, StripStep,
                                   PrependStep, ReplaceStep, ByteCharsStep>;

/// `text` is valid UTF-8, and so is the result. Errors: limit (a pattern needs too many steps; the
/// result is longer than 256 MiB, which only a hostile chain of replacements reaches).
std::string normalize(const std::vector<NormalizeStep>& steps, std::string text);

/// Replaces every match of the pattern.
std::string replace(std::string_view text, const TextPattern& pattern, std::string_view content);

}  // namespace rlx::tokenizer
