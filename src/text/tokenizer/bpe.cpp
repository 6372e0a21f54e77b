#include "text/tokenizer/bpe.h"

#include <bit>
#include <limits>
#include <queue>

#include "text/tokenizer/utf8.h"

namespace rlx::tokenizer {
namespace {

// Up to here, looking at all pairs for each merge is quicker than a heap (nearly all words are far
// shorter).
constexpr std::size_t kShortWord = 32;

constexpr std::uint64_t key_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

constexpr int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

void MergeTable::reserve(std::size_t rules) {
  const std::size_t wanted = std::bit_ceil(rules * 2 + 16);
  if (wanted <= slots_.size()) return;
  std::vector<Slot> old(wanted);
  old.swap(slots_);
  for (const Slot& s : old) {
    if (s.key != kEmpty) slots_[slot_of(s.key)] = s;
  }
}

std::size_t MergeTable::home_of(std::uint64_t key) const {
  // Both ids must reach the low bits: multiplicative hashing with the golden ratio, folded.
  std::uint64_t h = key * 0x9E3779B97F4A7C15ull;
  h ^= h >> 32;
  h *= 0xD6E8FEB86659FD93ull;
  h ^= h >> 32;
  return h & (slots_.size() - 1);
}

std::size_t MergeTable::slot_of(std::uint64_t key) const {
  std::size_t at = home_of(key);
  while (slots_[at].key != kEmpty && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
  return at;
}

void MergeTable::prefetch(std::int32_t left, std::int32_t right) const {
  if (!slots_.empty()) __builtin_prefetch(&slots_[home_of(key_of(left, right))], 1);
}

void MergeTable::add(std::int32_t left, std::int32_t right, Rule rule) {
  if ((used_ + 1) * 2 > slots_.size()) reserve(used_ * 2 + 16);
  Slot& slot = slots_[slot_of(key_of(left, right))];
  if (slot.key == kEmpty) ++used_;
  slot = {key_of(left, right), rule};
}

const MergeTable::Rule* MergeTable::find(std::int32_t left, std::int32_t right) const {
  if (slots_.empty()) return nullptr;
  const Slot& slot = slots_[slot_of(key_of(left, right))];
  return slot.key == kEmpty ? nullptr : &slot.rule;
}

std::string byte_token(unsigned char byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
}

int byte_of_token(std::string_view token) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return -1;
  const int high = hex_digit(token[3]);
  const int low = hex_digit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

void Bpe::prepare(const Vocab& vocab) {
  std::string c;
  for (std::size_t i = 0; i < char_ids_.size(); ++i) {
    c.clear();
    append_utf8(c, static_cast<char32_t>(i));
    char_ids_[i] = vocab.find_model(c);
  }
}

std::int32_t Bpe::id_of_char(const Vocab& vocab, std::string_view c, bool first, bool last) const {
  const bool prefixed = !first && !options_.continuing_prefix.empty();
  const bool suffixed = last && !options_.end_suffix.empty();
  if (prefixed || suffixed) {
    return vocab.find_model((prefixed ? options_.continuing_prefix : "") + std::string(c) +
                            (suffixed ? options_.end_suffix : ""));
  }
  if (c.size() <= 2) {
    const char32_t code = utf8_at(c, 0);
    if (code < char_ids_.size()) return char_ids_[code];
  }
  return vocab.find_model(c);
}

bool Bpe::byte_ids(const Vocab& vocab, std::string_view c, bool first, bool last,
                   std::vector<std::int32_t>& ids) const {
  const std::size_t before = ids.size();
  const std::string whole = (first ? "" : options_.continuing_prefix) + std::string(c) +
                            (last ? options_.end_suffix : "");
  for (const char b : whole) {
    const auto id = vocab.find(byte_token(static_cast<unsigned char>(b)));
    if (!id) {
      ids.resize(before);
      return false;
    }
    ids.push_back(*id);
  }
  return true;
}

void Bpe::initial(const Vocab& vocab, std::string_view word, std::vector<std::int32_t>& ids) const {
  std::size_t unknown =
      0;  // unknown tokens that wait; the reference writes them before the next known character
  const auto flush = [&] {
    if (options_.unk) ids.insert(ids.end(), unknown, *options_.unk);
    unknown = 0;
  };
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t length = utf8_length(word[at]);
    const std::string_view c = word.substr(at, length);
    const bool first = at == 0;
    const bool last = at + length == word.size();
    at += length;
    const std::int32_t id = id_of_char(vocab, c, first, last);
    if (id >= 0) {
      flush();
      ids.push_back(id);
    } else if (!(options_.byte_fallback && byte_ids(vocab, c, first, last, ids))) {
      if (!options_.fuse_unk) flush();
      unknown = 1;
    }
  }
  flush();
}

void Bpe::encode(const Vocab& vocab, std::string_view word, std::vector<std::int32_t>& ids) const {
  if (options_.ignore_merges) {
    if (const std::int32_t id = vocab.find_model(word); id >= 0) {
      ids.push_back(id);
      return;
    }
  }
  const std::size_t begin = ids.size();
  initial(vocab, word, ids);
  if (ids.size() - begin <= kShortWord) {
    merge_short(ids, begin);
  } else {
    merge_long(ids, begin);
  }
}

void Bpe::merge_short(std::vector<std::int32_t>& ids, std::size_t begin) const {
  constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  std::int32_t* const id = ids.data() + begin;
  std::size_t n = ids.size() - begin;
  MergeTable::Rule rules[kShortWord];
  const auto look = [&](std::size_t i) {
    const MergeTable::Rule* rule = i + 1 < n ? merges_.find(id[i], id[i + 1]) : nullptr;
    return rule ? *rule : MergeTable::Rule{kNone, -1};
  };
  for (std::size_t i = 0; i < n; ++i) rules[i] = look(i);
  while (n > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < n; ++i) {
      if (rules[i].rank < rules[best].rank) best = i;
    }
    if (rules[best].rank == kNone) break;
    id[best] = rules[best].id;
    for (std::size_t i = best + 1; i + 1 < n; ++i) {
      id[i] = id[i + 1];
      rules[i] = rules[i + 1];
    }
    --n;
    if (best > 0) rules[best - 1] = look(best - 1);
    rules[best] = look(best);
  }
  ids.resize(begin + n);
}

void Bpe::merge_long(std::vector<std::int32_t>& ids, std::size_t begin) const {
  struct Symbol {
    std::int32_t id;  ///< -1 once merged into its left neighbour
    std::int32_t previous, next;
  };
  struct Candidate {
    std::uint32_t rank;
    std::int32_t at, left, right, merged;
    bool operator<(const Candidate& o) const { return rank != o.rank ? rank > o.rank : at > o.at; }
  };
  const auto n = static_cast<std::int32_t>(ids.size() - begin);
  std::vector<Symbol> symbols(static_cast<std::size_t>(n));
  for (std::int32_t i = 0; i < n; ++i) {
    symbols[static_cast<std::size_t>(i)] = {ids[begin + static_cast<std::size_t>(i)], i - 1,
                                            i + 1 < n ? i + 1 : -1};
  }
  std::priority_queue<Candidate> queue;
  const auto offer = [&](std::int32_t at) {
    if (at < 0) return;
    const Symbol& left = symbols[static_cast<std::size_t>(at)];
    if (left.next < 0) return;
    const std::int32_t right = symbols[static_cast<std::size_t>(left.next)].id;
    if (const MergeTable::Rule* rule = merges_.find(left.id, right)) {
      queue.push({rule->rank, at, left.id, right, rule->id});
    }
  };
  for (std::int32_t i = 0; i < n; ++i) offer(i);
  while (!queue.empty()) {
    const Candidate c = queue.top();
    queue.pop();
    Symbol& left = symbols[static_cast<std::size_t>(c.at)];
    if (left.id != c.left || left.next < 0) continue;
    Symbol& right = symbols[static_cast<std::size_t>(left.next)];
    if (right.id != c.right) continue;
    left.id = c.merged;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) symbols[static_cast<std::size_t>(left.next)].previous = c.at;
    offer(left.previous);
    offer(c.at);
  }
  std::size_t out = begin;
  for (std::int32_t i = 0; i >= 0 && i < n; i = symbols[static_cast<std::size_t>(i)].next) {
    ids[out++] = symbols[static_cast<std::size_t>(i)].id;
  }
  ids.resize(out);
}

}  // namespace rlx::tokenizer
