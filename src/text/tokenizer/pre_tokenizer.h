// Pre-tokenizers: a section of text is cut into the words that the model then sees one by one
// (https://huggingface.co/docs/tokenizers/api/pre-tokenizers).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "text/tokenizer/regex.h"

namespace rlx::tokenizer {

/// A part of Words::text. `first`: it stands at the very beginning of the input.
struct Word {
  std::size_t begin, end;
  bool first;
};

/// The text of one section, as rewritten so far, and the words in it, none empty.
struct Words {
  std::string text;
  std::vector<Word> words;
};

/// What becomes of the separators that a pattern finds.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// A literal text or a pattern, as the files write them: {"String": ...} or {"Regex": ...}.
struct TextPattern {
  std::string literal;
  std::optional<Regex> regex;

  void split(std::string_view text, std::vector<Part>& parts) const;
};

/// Cuts each word at the pattern's matches; `invert` makes the matches the words.
struct SplitStep {
  TextPattern pattern;
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;
};

/// Cuts each word at the characters of a class.
struct ClassStep {
  bool (*is_separator)(char32_t) noexcept = nullptr;
  SplitBehavior behavior = SplitBehavior::isolated;
};

/// Puts a space in front of each word that does not begin with one.
struct PrefixSpaceStep {};

/// Every byte becomes a character (byte_level.h).
struct ByteLevelStep {};

/// SentencePiece's: spaces become `mark`, which is also put in front, and words begin with it.
struct MetaspaceStep {
  std::string mark = "\xE2\x96\x81";  // U+2581
  enum class Prepend { always, never, first } prepend = Prepend::always;
  bool cut = true;
};

using PreStep = std::variant<SplitStep, ClassStep, PrefixSpaceStep, ByteLevelStep, MetaspaceStep>;

/// GPT-2's pattern (openai/gpt-2, src/encoder.py).
extern const char* const kGpt2Pattern;

/// Applies the steps in order.
void pre_tokenize(const std::vector<PreStep>& steps, Words& words);

}  // namespace rlx::tokenizer
