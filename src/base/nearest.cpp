#include "base/nearest.h"

#include <algorithm>
#include <vector>

namespace rlx {
namespace {

std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t up = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      diagonal = up;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  std::string best;
  std::size_t least = std::max<std::size_t>(2, word.size() / 2) + 1;
  for (const std::string& c : candidates)
    if (const std::size_t d = edits(word, c); d < least) {
      best = c;
      least = d;
    }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::string near = nearest(word, candidates);
  return near.empty() ? "" : ": did you mean \"" + near + "\"?";
}

std::string did_you_mean_of(std::string_view word, std::span<const std::string> candidates) {
  std::string text = did_you_mean(word, candidates);
  if (!text.empty()) return text;
  for (const std::string& c : candidates) text += (text.empty() ? ": expected one of " : ", ") + c;
  return text;
}

}  // namespace rlx
