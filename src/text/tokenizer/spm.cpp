#include "text/tokenizer/spm.h"

#include <cmath>
#include <limits>
#include <queue>

#include "text/tokenizer/utf8.h"

namespace rlx::tokenizer {
namespace {

struct Symbol {
  std::size_t begin, length;  ///< length 0 once joined to the left neighbour
  std::int32_t previous, next;
  std::int32_t id;
};

struct Candidate {
  float score;
  std::int32_t at, id;
  std::size_t length;  ///< of the joined text: tells whether the pair is still the same
  bool operator<(const Candidate& o) const {
    return score != o.score ? score < o.score : at > o.at;
  }
};

}  // namespace

Spm::Spm(std::vector<float> scores, std::array<std::int32_t, 256> bytes,
         std::optional<std::int32_t> unk)
    : scores_(std::move(scores)), bytes_(bytes), unk_(unk) {
  for (float& s : scores_) {
    if (std::isnan(s))
      s = -std::numeric_limits<float>::infinity();  // the order of candidates must be an order
  }
}

bool Spm::byte_ids(std::string_view c, std::vector<std::int32_t>& ids) const {
  for (const char b : c) {
    if (bytes_[static_cast<unsigned char>(b)] < 0) return false;
  }
  for (const char b : c) ids.push_back(bytes_[static_cast<unsigned char>(b)]);
  return true;
}

void Spm::encode(const Vocab& vocab, std::string_view text, std::vector<std::int32_t>& ids) const {
  std::vector<Symbol> symbols;
  symbols.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text[at]);
    const auto i = static_cast<std::int32_t>(symbols.size());
    const bool last = at + length == text.size();
    symbols.push_back(
        {at, length, i - 1, last ? -1 : i + 1, vocab.find_model(text.substr(at, length))});
    at += length;
  }
  std::priority_queue<Candidate> queue;
  const auto offer = [&](std::int32_t at) {
    if (at < 0) return;
    const Symbol& left = symbols[static_cast<std::size_t>(at)];
    if (left.next < 0) return;
    const std::size_t length = left.length + symbols[static_cast<std::size_t>(left.next)].length;
    if (length > vocab.longest()) return;  // else a long run would be hashed again and again
    const std::int32_t id = vocab.find_model(text.substr(left.begin, length));
    if (id >= 0) queue.push({scores_[static_cast<std::size_t>(id)], at, id, length});
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) offer(static_cast<std::int32_t>(i));
  while (!queue.empty()) {
    const Candidate c = queue.top();
    queue.pop();
    Symbol& left = symbols[static_cast<std::size_t>(c.at)];
    if (left.length == 0 || left.next < 0) continue;
    Symbol& right = symbols[static_cast<std::size_t>(left.next)];
    if (left.length + right.length != c.length) continue;
    left.length = c.length;
    left.id = c.id;
    left.next = right.next;
    right.length = 0;
    if (left.next >= 0) symbols[static_cast<std::size_t>(left.next)].previous = c.at;
    offer(left.previous);
    offer(c.at);
  }
  bool unknown_before = false;
  for (std::int32_t i = symbols.empty() ? -1 : 0; i >= 0;
       i = symbols[static_cast<std::size_t>(i)].next) {
    const Symbol& s = symbols[static_cast<std::size_t>(i)];
    const bool known = s.id >= 0;
    if (known) {
      ids.push_back(s.id);
    } else if (!byte_ids(text.substr(s.begin, s.length), ids)) {
      if (unk_ && !unknown_before) ids.push_back(*unk_);
      unknown_before = true;
      continue;
    }
    unknown_before = false;
  }
}

}  // namespace rlx::tokenizer
