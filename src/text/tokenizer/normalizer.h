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
/// Of BertNormalizer: control characters go, all kinds of white space become spaces.
struct CleanStep {};
/// Of BertNormalizer: spaces around each Chinese character.
struct SpacedHanStep {};
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
                                   PrependStep, ReplaceStep, ByteCharsStep, CleanStep, SpacedHanStep>;

/// The longest that an honest file makes a text of `bytes`, in bytes: 64 times as long and 64 KiB,
/// 256 MiB in all.
std::size_t rewritten_limit(std::size_t bytes);

/// `text` is valid UTF-8, and so is the result. Errors: format (a pattern needs too many steps; a
/// step's result is longer than `limit`, which only a hostile file reaches).
std::string normalize(const std::vector<NormalizeStep>& steps, std::string text, std::size_t limit);

/// Replaces every match of the pattern. Errors: as normalize.
std::string replace(std::string_view text, const TextPattern& pattern, std::string_view content,
                    std::size_t limit);
/// The same, bounded by rewritten_limit of the text.
std::string replace(std::string_view text, const TextPattern& pattern, std::string_view content);

/// Errors: format, when `bytes` is above `limit`.
void check_rewritten(std::size_t bytes, std::size_t limit);

}  // namespace rlx::tokenizer
