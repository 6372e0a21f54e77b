#include "text/tokenizer/tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/data.h"
#include "text/tokenizer/origin.h"
#include "text/tokenizer/utf8.h"

namespace rlx {

using tokenizer::AddedToken;
using tokenizer::Data;
using tokenizer::Section;

namespace {

constexpr std::size_t kMaxText = 256 << 20;  // positions within a text are 32 bits wide

/// Where a text is trusted: ranges in order, none empty, none touching.
struct Trust {
  struct Range {
    std::size_t begin, end;
  };
  std::vector<Range> ranges;

  void add(std::size_t begin, std::size_t end) {
    if (begin == end) return;
    if (!ranges.empty() && ranges.back().end == begin) {
      ranges.back().end = end;
    } else {
      ranges.push_back({begin, end});
    }
  }
  bool covers(std::size_t begin, std::size_t end) const {
    const auto after = std::upper_bound(ranges.begin(), ranges.end(), begin,
                                        [](std::size_t b, const Range& r) { return b < r.begin; });
    return after != ranges.begin() && end <= std::prev(after)->end;
  }
};

/// One encoding of one text.
class Encoder {
 public:
  Encoder(const Data& data, std::string_view text, const Trust& trust)
      : data_(data),
        text_(text),
        trust_(trust),
        room_(tokenizer::rewritten_limit(text.size())) {}

  std::vector<std::int32_t> run() {
    const bool all_trusted = trust_.covers(0, text_.size());
    const bool none_trusted = trust_.ranges.empty();
    const tokenizer::TokenMatcher& matcher =
        all_trusted || none_trusted ? data_.raw : data_.raw_special;
    std::vector<Section> sections;
    matcher.split(
        text_,
        [&](const AddedToken& t, std::size_t begin, std::size_t end) {
          return !t.special || trust_.covers(begin, end);
        },
        sections);
    ids_.reserve(text_.size() / 3 + 8);
    for (const Section& s : sections) {
      if (s.id >= 0) {
        ids_.push_back(s.id);
      } else {
        section(text_.substr(s.begin, s.end - s.begin), s.begin == 0, all_trusted);
      }
    }
    return std::move(ids_);
  }

 private:
  void section(std::string_view raw, bool first, bool special) {
    const std::string text = tokenizer::normalize(data_.normalizer, std::string(raw), room_);
    room_ -= text.size();
    if (data_.normalized.empty()) return words(text, first);
    std::vector<Section> sections;
    data_.normalized.split(
        text, [&](const AddedToken& t, std::size_t, std::size_t) { return special || !t.special; },
        sections);
    for (const Section& s : sections) {
      if (s.id >= 0) {
        ids_.push_back(s.id);
      } else {
        words(text.substr(s.begin, s.end - s.begin), first && s.begin == 0);
      }
    }
  }

  void words(std::string text, bool first) {
    if (text.empty()) return;
    tokenizer::Words w;
    w.words.push_back({0, text.size(), first});
    w.text = std::move(text);
    tokenizer::pre_tokenize(data_.pre_tokenizer, w);
    for (const tokenizer::Word& word : w.words) {
      const std::string_view part =
          std::string_view(w.text).substr(word.begin, word.end - word.begin);
      if (const auto* bpe = std::get_if<tokenizer::Bpe>(&data_.model)) {
        bpe->encode(data_.vocab, part, ids_);
      } else if (const auto* spm = std::get_if<tokenizer::Spm>(&data_.model)) {
        spm->encode(data_.vocab, part, ids_);
      } else if (const auto* pieces = std::get_if<tokenizer::WordPiece>(&data_.model)) {
        pieces->encode(data_.vocab, part, ids_);
      }
    }
  }

  const Data& data_;
  std::string_view text_;
  const Trust& trust_;
  std::size_t room_;  ///< bytes that the sections still to come may become
  std::vector<std::int32_t> ids_;
};

std::vector<std::int32_t> post_process(const Data& data, std::vector<std::int32_t> ids) {
  std::vector<std::int32_t> out;
  out.reserve(ids.size() + data.post.size());
  for (const std::int32_t item : data.post) {
    if (item == Data::kSequence) {
      out.insert(out.end(), ids.begin(), ids.end());
    } else {
      out.push_back(item);
    }
  }
  return out;
}

std::string_view text_of(const Data& data, std::int32_t id) {
  if (id < 0 || id >= data.vocab.size()) {
    fail(ErrorCode::invalid_argument, "token id {}: expected 0 to {}", id, data.vocab.size() - 1);
  }
  if (!data.vocab.has(id))
    fail(ErrorCode::invalid_argument, "token id {}: the vocabulary has no such token", id);
  const auto other = data.decoded_as.find(id);
  return other != data.decoded_as.end() ? std::string_view(other->second) : data.vocab.text(id);
}

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

std::int64_t Tokenizer::vocab_size() const { return data_->vocab.size(); }

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  const Piece piece{text, options.parse_special};
  return encode_pieces({&piece, 1}, options.add_special);
}

std::vector<std::int32_t> Tokenizer::encode_pieces(std::span<const Piece> pieces,
                                                   bool add_special) const {
  std::string text;
  Trust trust;
  for (const Piece& piece : pieces) {
    const std::size_t begin = text.size();
    if (tokenizer::is_utf8(piece.text)) {
      text += piece.text;
    } else {
      text += tokenizer::to_utf8(piece.text);
    }
    if (text.size() > kMaxText)
      fail(ErrorCode::limit, "a text to encode is longer than {} bytes", kMaxText);
    if (piece.trusted) trust.add(begin, text.size());
  }
  std::vector<std::int32_t> ids =
      tokenizer::naming(data_->origin, [&] { return Encoder(*data_, text, trust).run(); });
  return add_special ? post_process(*data_, std::move(ids)) : ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  tokenizer::DecodeChain chain(data_->decoder);
  std::string out;
  for (const std::int32_t id : ids) {
    const std::string_view token = text_of(*data_, id);
    if (skip_special && is_special(id)) continue;
    tokenizer::naming(data_->origin, [&] { chain.push(token, out); });
  }
  tokenizer::naming(data_->origin, [&] { chain.finish(out); });
  return out;
}

std::string Tokenizer::token_bytes(std::int32_t id) const {
  std::string token(text_of(*data_, id));
  if (is_special(id)) return token;
  for (const tokenizer::DecodeStep& step : data_->decoder) {
    if (std::holds_alternative<tokenizer::ByteLevelDecode>(step)) {
      std::string bytes;
      tokenizer::append_bytes_of(bytes, token);
      return bytes;
    }
    if (std::holds_alternative<tokenizer::ByteFallbackDecode>(step)) {
      if (const int byte = tokenizer::byte_of_token(token); byte >= 0)
        return std::string(1, static_cast<char>(byte));
    } else if (const auto* r = std::get_if<tokenizer::ReplaceDecode>(&step)) {
      token = tokenizer::naming(
          data_->origin, [&] { return tokenizer::replace(token, r->pattern, r->content); });
    } else if (const auto* m = std::get_if<tokenizer::MetaspaceDecode>(&step)) {
      token = tokenizer::replace(token, {m->mark, std::nullopt}, " ");
    } else if (const auto* w = std::get_if<tokenizer::WordPieceDecode>(&step)) {
      if (!w->prefix.empty() && token.starts_with(w->prefix)) token.erase(0, w->prefix.size());
    } else if (const auto* s = std::get_if<tokenizer::SuffixDecode>(&step)) {
      token = tokenizer::replace(token, {s->suffix, std::nullopt}, " ");
    }
  }
  return token;
}

bool Tokenizer::is_special(std::int32_t id) const {
  return id >= 0 && static_cast<std::size_t>(id) < data_->special.size() &&
         data_->special[static_cast<std::size_t>(id)];
}

std::optional<std::int32_t> Tokenizer::bos() const { return data_->bos; }
std::optional<std::int32_t> Tokenizer::eos() const { return data_->eos; }
std::optional<std::int32_t> Tokenizer::eot() const { return data_->eot; }
std::optional<std::int32_t> Tokenizer::find(std::string_view token) const {
  return data_->vocab.find(token);
}

bool Tokenizer::adds_bos() const { return data_->bos && data_->post.front() == *data_->bos; }
bool Tokenizer::adds_eos() const { return data_->eos && data_->post.back() == *data_->eos; }

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
    : data_(tokenizer.data_),
      chain_(std::make_unique<tokenizer::DecodeChain>(data_->decoder)),
      skip_special_(skip_special) {}
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;
StreamDecoder& StreamDecoder::operator=(StreamDecoder&&) noexcept = default;
StreamDecoder::~StreamDecoder() = default;

std::string StreamDecoder::push(std::int32_t id) {
  const std::string_view token = text_of(*data_, id);
  std::string out;
  const bool skipped = skip_special_ && data_->special[static_cast<std::size_t>(id)];
  if (!skipped) tokenizer::naming(data_->origin, [&] { chain_->push(token, out); });
  return out;
}

std::string StreamDecoder::finish() {
  std::string out;
  tokenizer::naming(data_->origin, [&] { chain_->finish(out); });
  return out;
}

}  // namespace rlx

namespace rlx::tokenizer {

void Data::complete() {
  special.assign(static_cast<std::size_t>(vocab.size()), false);
  std::size_t bytes = 0;
  for (const AddedToken& token : added) bytes += token.content.size();
  std::size_t room = rewritten_limit(bytes);
  for (const AddedToken& token : added) {
    if (token.special) special[static_cast<std::size_t>(token.id)] = true;
    if (!token.normalized) raw.add(token, token.content);
    if (!token.normalized || token.special) raw_special.add(token, token.content);
    if (!token.normalized) continue;
    const std::string text =
        naming(origin, [&] { return tokenizer::normalize(normalizer, token.content, room); });
    room -= text.size();
    normalized.add(token, text);
    if (text != token.content) decoded_as[token.id] = text;
  }
  if (decoder.empty()) decoder.push_back(JoinDecode{});
  if (post.empty()) post.push_back(kSequence);
  if (auto* bpe = std::get_if<Bpe>(&model)) bpe->prepare(vocab);
}

}  // namespace rlx::tokenizer
