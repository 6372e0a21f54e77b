// Finds the outermost functions of C++ text and measures them, without a compiler.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace rlx::house {

struct FunctionSpan {
  int first_line = 0;  ///< line of the opening parenthesis of its head, from 1
  int lines = 0;       ///< from there to its closing brace, both counted
  int parameters = 0;
};

inline bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// End of the string, character literal or comment that starts at `at`; `at` itself when none does.
inline size_t noise_end(std::string_view text, size_t at) {
  const std::string_view rest = text.substr(at);
  const auto after = [&](std::string_view end, size_t from) {
    const size_t found = text.find(end, from);
    return found == std::string_view::npos ? text.size() : found + end.size();
  };
  if (rest.starts_with("//")) return std::min(text.find('\n', at), text.size());
  if (rest.starts_with("/*")) return after("*/", at + 2);
  if (rest.starts_with("R\"")) {
    const size_t open = text.find('(', at);
    if (open == std::string_view::npos) return at;
    return after(")" + std::string(text.substr(at + 2, open - at - 2)) + "\"", open);
  }
  if (rest[0] != '"' && rest[0] != '\'') return at;
  // A quote inside a number separates digits.
  if (rest[0] == '\'' && at > 0 && std::isxdigit(static_cast<unsigned char>(text[at - 1])) != 0) return at;
  for (size_t end = at + 1; end < text.size() && text[end] != '\n'; ++end) {
    if (text[end] == '\\') ++end;
    else if (text[end] == rest[0]) return end + 1;
  }
  return at;
}

inline std::string without_noise(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = noise_end(text, at);
    if (end == at) {
      out += text[at++];
      continue;
    }
    const std::string_view noise = text.substr(at, end - at);
    out += ' ';
    out.append(static_cast<size_t>(std::count(noise.begin(), noise.end(), '\n')), '\n');
    at = end;
  }
  return out;
}

/// Blanks preprocessor lines with their continuations, and #else branches: braces there would count twice.
inline std::string without_preprocessor(std::string_view text) {
  std::string out;
  int skipped = 0;
  bool continued = false;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    const size_t first = line.find_first_not_of(" \t");
    const bool directive = !continued && first != std::string_view::npos && line[first] == '#';
    if (directive) {
      const size_t word = line.find_first_not_of("# \t", first);
      const std::string_view name = word == std::string_view::npos ? "" : line.substr(word);
      if (name.starts_with("endif") && skipped > 0) --skipped;
      else if (name.starts_with("if") && skipped > 0) ++skipped;
      else if (name.starts_with("el") && skipped == 0) skipped = 1;
    }
    const bool hidden = directive || continued || skipped > 0;
    continued = (directive || continued) && line.ends_with('\\');
    if (!hidden) out += line;
    out += '\n';
    at = end + 1;
  }
  return out;
}

/// True when the text before a brace ends like the head of a function: `name(...) qualifiers`.
inline bool is_function_head(std::string_view head) {
  size_t first_word = 0;
  while (first_word < head.size() && is_word(head[first_word])) ++first_word;
  for (std::string_view keyword : {"namespace", "if", "for", "while", "switch", "catch", "else", "do"}) {
    if (head.substr(0, first_word) == keyword) return false;
  }
  if (head.find(") requires") != std::string_view::npos) return true;
  const size_t arrow = head.rfind("->");
  if (arrow != std::string_view::npos && head.find_first_of("(){}", arrow) == std::string_view::npos) {
    head = head.substr(0, arrow);
  }
  while (!head.empty()) {
    if (head.back() == ')') return true;
    if (std::isspace(static_cast<unsigned char>(head.back())) != 0 || head.back() == '&') {
      head.remove_suffix(1);
      continue;
    }
    bool qualifier = false;
    for (std::string_view word : {"const", "noexcept", "override", "final", "mutable"}) {
      if (!qualifier && head.ends_with(word)) {
        head.remove_suffix(word.size());
        qualifier = true;
      }
    }
    if (!qualifier) return false;
  }
  return false;
}

/// Parameters in the first parentheses of a head.
inline int count_parameters(std::string head) {
  if (const size_t call = head.find("operator()"); call != std::string::npos) head.replace(call, 10, "call");
  int parentheses = 0, angles = 0, commas = 0;
  bool any = false;
  for (const char c : head) {
    if (c == '<') ++angles;
    else if (c == '>') angles = std::max(0, angles - 1);
    else if (angles > 0) continue;
    else if (c == '(') ++parentheses;
    else if (c == ')' && --parentheses == 0) break;
    else if (parentheses == 1 && c == ',') ++commas;
    else if (parentheses >= 1 && std::isspace(static_cast<unsigned char>(c)) == 0) any = true;
  }
  return any ? commas + 1 : 0;
}

inline std::vector<FunctionSpan> scan_functions(std::string_view text) {
  struct Brace {
    bool function = false;
    FunctionSpan span;
  };
  std::vector<Brace> open;
  std::vector<FunctionSpan> found;
  std::string head;
  int line = 1, inside = 0;
  for (const char c : without_preprocessor(without_noise(text))) {
    if (c == '\n') ++line;
    if (c == '{') {
      const size_t first = std::min(head.find_first_not_of(" \t\n"), head.size());
      const std::string trimmed = head.substr(first, head.find_last_not_of(" \t\n") + 1 - first);
      Brace brace{.function = inside == 0 && is_function_head(trimmed), .span = {}};
      if (brace.function) {
        ++inside;
        const size_t parameters = std::min(head.find('('), head.size());
        const auto below = std::count(head.begin() + static_cast<std::ptrdiff_t>(parameters), head.end(), '\n');
        brace.span = {line - static_cast<int>(below), 0, count_parameters(trimmed)};
      }
      open.push_back(brace);
      head.clear();
    } else if (c == '}' && !open.empty()) {
      Brace brace = open.back();
      open.pop_back();
      if (brace.function) {
        --inside;
        brace.span.lines = line - brace.span.first_line + 1;
        found.push_back(brace.span);
      }
      head.clear();
    } else if (c == ';') {
      head.clear();
    } else {
      head += c;
    }
  }
  return found;
}

}  // namespace rlx::house
