#include "text/tokenizer/pre_tokenizer.h"

#include <algorithm>

#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/utf8.h"

namespace rlx::tokenizer {

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

void TextPattern::split(std::string_view text, std::vector<Part>& parts) const {
  if (regex) return regex->split(text, parts);
  std::size_t previous = 0;
  while (!literal.empty()) {
    const std::size_t at = text.find(literal, previous);
    if (at == std::string_view::npos) break;
    if (at != previous) parts.push_back({previous, at, false});
    parts.push_back({at, at + literal.size(), true});
    previous = at + literal.size();
  }
  if (previous != text.size()) parts.push_back({previous, text.size(), false});
}

namespace {

/// Joins or drops parts as `behavior` says; afterwards `match` means "to be dropped".
void apply_behavior(std::vector<Part>& parts, SplitBehavior behavior) {
  if (behavior == SplitBehavior::removed) return;
  const bool backwards = behavior == SplitBehavior::merged_with_next;
  if (backwards) std::reverse(parts.begin(), parts.end());
  std::vector<Part> out;
  out.reserve(parts.size());
  bool previous = false;
  for (const Part& p : parts) {
    const bool joins =
        behavior == SplitBehavior::contiguous ? p.match == previous : p.match && !previous;
    if (behavior != SplitBehavior::isolated && joins && !out.empty()) {
      out.back().begin = std::min(out.back().begin, p.begin);
      out.back().end = std::max(out.back().end, p.end);
    } else {
      out.push_back({p.begin, p.end, false});
    }
    previous = p.match;
  }
  if (backwards) std::reverse(out.begin(), out.end());
  parts.swap(out);
}

/// Cuts every word by `find(text, parts)`.
template <typename Find>
void cut(Words& words, SplitBehavior behavior, bool invert, const Find& find) {
  std::vector<Word> out;
  out.reserve(words.words.size() * 2);
  std::vector<Part> parts;
  for (const Word& w : words.words) {
    parts.clear();
    find(std::string_view(words.text).substr(w.begin, w.end - w.begin), parts);
    if (invert) {
      for (Part& p : parts) p.match = !p.match;
    }
    apply_behavior(parts, behavior);
    for (const Part& p : parts) {
      if (p.match || p.begin == p.end) continue;
      out.push_back({w.begin + p.begin, w.begin + p.end, w.first && p.begin == 0});
    }
  }
  words.words.swap(out);
}

void apply(const SplitStep& step, Words& words) {
  cut(words, step.behavior, step.invert,
      [&](std::string_view text, std::vector<Part>& parts) { step.pattern.split(text, parts); });
}

void apply(const ClassStep& step, Words& words) {
  cut(words, step.behavior, false, [&](std::string_view text, std::vector<Part>& parts) {
    std::size_t previous = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t next = at + utf8_length(text[at]);
      if (step.is_separator(utf8_at(text, at))) {
        if (previous != at) parts.push_back({previous, at, false});
        parts.push_back({at, next, true});
        previous = next;
      }
      at = next;
    }
    if (previous != text.size()) parts.push_back({previous, text.size(), false});
  });
}

/// Rewrites every word by `write(word, text, out)`.
template <typename Write>
void rewrite(Words& words, const Write& write) {
  std::string out;
  out.reserve(words.text.size() + words.text.size() / 4 + 16);
  for (Word& w : words.words) {
    const std::size_t begin = out.size();
    write(w, std::string_view(words.text).substr(w.begin, w.end - w.begin), out);
    w.begin = begin;
    w.end = out.size();
  }
  words.text.swap(out);
}

void apply(const PrefixSpaceStep&, Words& words) {
  rewrite(words, [](const Word&, std::string_view text, std::string& out) {
    if (text[0] != ' ') out += ' ';
    out += text;
  });
}

void apply(const ByteLevelStep&, Words& words) {
  rewrite(words, [](const Word&, std::string_view text, std::string& out) {
    append_byte_chars(out, text);
  });
}

void apply(const MetaspaceStep& step, Words& words) {
  using Prepend = MetaspaceStep::Prepend;
  rewrite(words, [&](const Word& w, std::string_view text, std::string& out) {
    const bool wanted =
        step.prepend == Prepend::always || (step.prepend == Prepend::first && w.first);
    if (wanted && text[0] != ' ' && text.substr(0, step.mark.size()) != step.mark) out += step.mark;
    for (const char c : text) {
      if (c == ' ') {
        out += step.mark;
      } else {
        out += c;
      }
    }
  });
  if (step.cut) {
    const TextPattern mark{step.mark, std::nullopt};
    cut(words, SplitBehavior::merged_with_next, false,
        [&](std::string_view text, std::vector<Part>& parts) { mark.split(text, parts); });
  }
}

}  // namespace

void pre_tokenize(const std::vector<PreStep>& steps, Words& words) {
  for (const PreStep& step : steps) {
    std::visit([&](const auto& s) { apply(s, words); }, step);
  }
}

}  // namespace rlx::tokenizer
