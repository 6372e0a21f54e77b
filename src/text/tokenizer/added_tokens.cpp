#include "text/tokenizer/added_tokens.h"

#include <algorithm>

#include "text/tokenizer/unicode.h"
#include "text/tokenizer/utf8.h"

namespace rlx::tokenizer {
namespace {

/// Start of the character that ends at `end`.
std::size_t previous_char(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0 && is_word(utf8_at(text, previous_char(text, begin)))) return false;
  return end == text.size() || !is_word(utf8_at(text, end));
}

}  // namespace

std::int32_t TokenMatcher::child_of(std::int32_t node, unsigned char byte) const {
  std::int32_t child = nodes_[static_cast<std::size_t>(node)].child;
  while (child >= 0 && nodes_[static_cast<std::size_t>(child)].byte != byte) {
    child = nodes_[static_cast<std::size_t>(child)].sibling;
  }
  return child;
}

void TokenMatcher::add(const AddedToken& token, std::string_view text) {
  if (text.empty()) return;
  std::int32_t node = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    std::int32_t child = child_of(node, byte);
    if (child < 0) {
      child = static_cast<std::int32_t>(nodes_.size());
      Node fresh;
      fresh.sibling = nodes_[static_cast<std::size_t>(node)].child;
      fresh.byte = byte;
      nodes_.push_back(fresh);
      nodes_[static_cast<std::size_t>(node)].child = child;
      if (node == 0) roots_[byte] = child;
    }
    node = child;
  }
  Node& end = nodes_[static_cast<std::size_t>(node)];
  if (end.token >= 0) return;  // the first of equal texts stands
  end.token = static_cast<std::int32_t>(tokens_.size());
  tokens_.push_back(token);
}

TokenMatcher::Found TokenMatcher::longest_at(std::string_view text, std::size_t at,
                                             const Accept& accept) const {
  Found found;
  std::int32_t node = roots_[static_cast<unsigned char>(text[at])];
  for (std::size_t next = at + 1; node > 0; ++next) {
    const std::int32_t token = nodes_[static_cast<std::size_t>(node)].token;
    if (token >= 0 && accept(tokens_[static_cast<std::size_t>(token)], at, next))
      found = {token, next - at};
    if (next == text.size()) break;
    node = child_of(node, static_cast<unsigned char>(text[next]));
  }
  return found;
}

void TokenMatcher::split(std::string_view text, const Accept& accept,
                         std::vector<Section>& sections) const {
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size() && !empty();) {
    const Found found = longest_at(text, at, accept);
    if (found.token < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(found.token)];
    std::size_t begin = at;
    std::size_t end = at + found.length;
    at = end;
    if (token.single_word && !stands_alone(text, begin, end)) continue;
    if (token.lstrip) {
      while (begin > done && is_whitespace(utf8_at(text, previous_char(text, begin))))
        begin = previous_char(text, begin);
    }
    if (token.rstrip) {
      while (end < text.size() && is_whitespace(utf8_at(text, end))) end += utf8_length(text[end]);
    }
    if (done < begin) sections.push_back({done, begin, -1});
    sections.push_back({begin, end, token.id});
    done = end;
  }
  if (done < text.size()) sections.push_back({done, text.size(), -1});
}

}  // namespace rlx::tokenizer
