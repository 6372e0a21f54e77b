// Tokenizer::from_gguf: the tokenizer.ggml.* keys
// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md#tokenizer).
#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "base/error.h"
#include "formats/byte_reader.h"
#include "formats/gguf.h"
#include "text/tokenizer/data.h"
#include "text/tokenizer/origin.h"
#include "text/tokenizer/pre_table.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/utf8.h"

namespace rlx {
namespace tokenizer {
namespace {

constexpr std::string_view kMark = "\xE2\x96\x81";  // U+2581, a space in SentencePiece's texts

constexpr std::size_t kBlock = 32;  // look-ups in flight (Vocab::prefetch)

/// tokenizer.ggml.token_type
enum class PieceType : std::int64_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

class Reader {
 public:
  explicit Reader(const GgufFile& file) : file_(file) {}

  Data read() {
    const std::string_view model =
        required(file_.get_string("tokenizer.ggml.model"), "tokenizer.ggml.model");
    if (model != "llama" && model != "gpt2" && model != "bert") {
      fail(ErrorCode::unsupported, "{}: tokenizer.ggml.model: the model {} is not supported, but 'llama', "
           "'gpt2' and 'bert'",
           file_.path(), quote(model));
    }
    word_pieces_ = model == "bert";
    read_tokens(model == "llama");
    if (model == "llama") {
      read_sentencepiece();
    } else if (word_pieces_) {
      read_word_pieces();
    } else {
      read_bpe();
    }
    data_.origin = file_.path();
    data_.complete();
    return std::move(data_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void wrong(fmt::format_string<Args...> text, Args&&... args) const {
    fail(ErrorCode::format, "{}: {}", file_.path(), fmt::format(text, std::forward<Args>(args)...));
  }

  template <typename T>
  T required(std::optional<T> value, const char* key) const {
    if (!value) wrong("the key {} is missing", key);
    return *std::move(value);
  }

  PieceType type(std::size_t i) const {
    return types_.empty() ? PieceType::normal : static_cast<PieceType>(types_[i]);
  }

  bool is_special(std::int32_t id) const {
    const PieceType t = type(static_cast<std::size_t>(id));
    return t == PieceType::control || t == PieceType::unknown;
  }

  void read_tokens(bool sentencepiece) {
    const auto tokens =
        required(file_.get_strings("tokenizer.ggml.tokens"), "tokenizer.ggml.tokens");
    if (tokens.empty() ||
        tokens.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
      wrong("tokenizer.ggml.tokens: expected 1 to {} tokens, found {}",
            std::numeric_limits<std::int32_t>::max(), tokens.size());
    }
    if (auto types = file_.get_ints("tokenizer.ggml.token_type")) types_ = *std::move(types);
    if (!types_.empty() && types_.size() != tokens.size()) {
      wrong("tokenizer.ggml.token_type: expected {} values, found {}", tokens.size(),
            types_.size());
    }
    std::size_t bytes = 0;
    for (const auto token : tokens) bytes += token.size();
    data_.vocab.reserve(tokens.size(), bytes);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i + kBlock < tokens.size()) data_.vocab.prefetch(tokens[i + kBlock]);
      if (!is_utf8(tokens[i])) wrong("tokenizer.ggml.tokens[{}]: not UTF-8", i);
      add_token(static_cast<std::int32_t>(i), tokens[i], type(i), sentencepiece);
    }
  }

  void add_token(std::int32_t id, std::string_view text, PieceType type, bool sentencepiece) {
    const bool special = type == PieceType::control || type == PieceType::unknown;
    const bool byte =
        type == PieceType::byte || (sentencepiece && types_.empty() && byte_of_token(text) >= 0);
    const bool added = special || type == PieceType::user_defined;
    data_.vocab.add(id, added || !word_pieces_ ? std::string(text) : word_piece(text),
                    added || byte ? TokenKind::added : TokenKind::model);
    if (!added || text.empty()) return;
    AddedToken token;
    token.id = id;
    // User-defined pieces stand for raw text; some files hold them with their spaces already
    // rewritten.
    token.content =
        sentencepiece ? replace(text, {std::string(kMark), std::nullopt}, " ") : std::string(text);
    token.special = special;
    data_.added.push_back(std::move(token));
  }

  /// These files mark the beginning of a word, tokenizer.json the pieces that continue one.
  static std::string word_piece(std::string_view text) {
    return text.starts_with(kMark) ? std::string(text.substr(kMark.size())) : "##" + std::string(text);
  }

  std::optional<std::int32_t> id_of(const char* key) const {
    const auto id = file_.get_int(key);
    if (!id) return std::nullopt;
    if (*id < 0 || *id >= data_.vocab.size()) {
      wrong("{}: expected an id below {}, found {}", key, data_.vocab.size(), *id);
    }
    return static_cast<std::int32_t>(*id);
  }

  void read_special(bool adds_bos) {
    data_.bos = id_of("tokenizer.ggml.bos_token_id");
    data_.eos = id_of("tokenizer.ggml.eos_token_id");
    data_.eot = id_of("tokenizer.ggml.eot_token_id");
    if (!data_.eot) {
      // Most files name the end of a turn by its text alone.
      for (const char* text :
           {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|end_of_turn|>"}) {
        const auto id = data_.vocab.find(text);
        if (id && data_.vocab.kind(*id) == TokenKind::added) data_.eot = data_.eot ? data_.eot : id;
      }
    }
    adds_bos = file_.get_bool("tokenizer.ggml.add_bos_token").value_or(adds_bos);
    const bool adds_eos = file_.get_bool("tokenizer.ggml.add_eos_token").value_or(false);
    if (adds_bos && data_.bos) data_.post.insert(data_.post.begin(), *data_.bos);
    if (adds_eos && data_.eos) data_.post.push_back(*data_.eos);
  }

  void read_sentencepiece() {
    auto scores = required(file_.get_floats("tokenizer.ggml.scores"), "tokenizer.ggml.scores");
    const auto n = static_cast<std::size_t>(data_.vocab.size());
    if (scores.size() != n)
      wrong("tokenizer.ggml.scores: expected {} values, found {}", n, scores.size());
    std::array<std::int32_t, 256> bytes{};
    for (unsigned b = 0; b < 256; ++b) {
      bytes[b] = data_.vocab.find(byte_token(static_cast<unsigned char>(b))).value_or(-1);
    }
    auto unk = id_of("tokenizer.ggml.unknown_token_id");
    for (std::size_t i = 0; !unk && i < n; ++i) {
      if (type(i) == PieceType::unknown) unk = static_cast<std::int32_t>(i);
    }
    data_.model.emplace<Spm>(std::move(scores), bytes, unk);
    const bool prefix = file_.get_bool("tokenizer.ggml.add_space_prefix").value_or(true);
    const std::string mark(kMark);
    if (prefix) data_.normalizer.emplace_back(PrependStep{mark});
    data_.normalizer.emplace_back(ReplaceStep{{" ", std::nullopt}, mark});
    data_.decoder.emplace_back(ReplaceDecode{{mark, std::nullopt}, " "});
    data_.decoder.emplace_back(ByteFallbackDecode{});
    data_.decoder.emplace_back(FuseDecode{});
    if (prefix) data_.decoder.emplace_back(StripDecode{" ", 1, 0});
    read_special(true);
  }

  /// BERT without case: the format has no field for its flags.
  void read_word_pieces() {
    WordPieceOptions options;
    if (const auto unk = id_of("tokenizer.ggml.unknown_token_id")) options.unk = data_.vocab.text(*unk);
    data_.model.emplace<WordPiece>(std::move(options));
    data_.normalizer = {CleanStep{}, SpacedHanStep{}, NormalFormStep{NormalForm::nfd}, StripAccentsStep{},
                        LowercaseStep{}};
    data_.pre_tokenizer = {ClassStep{is_whitespace, SplitBehavior::removed},
                           ClassStep{is_punctuation, SplitBehavior::isolated}};
    data_.decoder = {WordPieceDecode{"##", true}};
    data_.bos = id_of("tokenizer.ggml.cls_token_id");
    data_.eos = id_of("tokenizer.ggml.seperator_token_id");  // as the format spells it
    if (!data_.bos) data_.bos = id_of("tokenizer.ggml.bos_token_id");
    if (!data_.eos) data_.eos = id_of("tokenizer.ggml.eos_token_id");
    if (data_.bos) data_.post.insert(data_.post.begin(), *data_.bos);
    if (data_.eos) data_.post.push_back(*data_.eos);
  }

  void read_bpe() {
    const std::string_view pre = file_.get_string("tokenizer.ggml.pre").value_or("default");
    const PreRule rule = naming(file_.path(), [&] { return find_pre_rule(pre); });
    BpeOptions options;
    options.ignore_merges = rule.ignore_merges;
    data_.model.emplace<Bpe>(std::move(options), read_merges());
    if (rule.nfc) data_.normalizer.emplace_back(NormalFormStep{NormalForm::nfc});
    if (file_.get_bool("tokenizer.ggml.add_space_prefix").value_or(false)) {
      data_.pre_tokenizer.emplace_back(PrefixSpaceStep{});
    }
    for (const char* pattern : rule.patterns) {
      data_.pre_tokenizer.emplace_back(
          SplitStep{{"", Regex(pattern)}, SplitBehavior::isolated, false});
    }
    data_.pre_tokenizer.emplace_back(ByteLevelStep{});
    data_.decoder.emplace_back(ByteLevelDecode{});
    read_special(rule.adds_bos);
  }

  /// Id of a text that a merge names.
  std::int32_t merge_part(std::string_view text, std::size_t merge) const {
    const auto id = data_.vocab.find(text);
    if (!id) wrong("tokenizer.ggml.merges[{}]: {} is not in the vocabulary", merge, quote(text));
    return *id;
  }

  MergeTable read_merges() const {
    const auto merges =
        required(file_.get_strings("tokenizer.ggml.merges"), "tokenizer.ggml.merges");
    MergeTable table;
    table.reserve(merges.size());
    std::int32_t merged = -1;
    for (std::size_t begin = 0; begin < merges.size(); begin += kBlock) {
      const auto block = std::span(merges).subspan(begin, std::min(kBlock, merges.size() - begin));
      merged = read_merge_block(block, begin, merged, table);
    }
    return table;
  }

  /// Reads the merges from number `first` on; `merged` is the result of the merge before, and the
  /// last one's is returned.
  std::int32_t read_merge_block(std::span<const std::string_view> merges, std::size_t first,
                                std::int32_t merged, MergeTable& table) const {
    struct Merge {
      std::string_view left, right;
      std::int32_t a = -1, b = -1, merged = -1;
    };
    std::array<Merge, kBlock> block;
    for (std::size_t j = 0; j < merges.size(); ++j) {
      const std::size_t space = merges[j].find(' ', 1);
      if (space == std::string_view::npos) {
        wrong("tokenizer.ggml.merges[{}]: {} has no space", first + j, quote(merges[j]));
      }
      block[j].left = merges[j].substr(0, space);
      block[j].right = merges[j].substr(space + 1);
      data_.vocab.prefetch(block[j].left);
      data_.vocab.prefetch(block[j].right);
    }
    std::string joined;
    for (std::size_t j = 0; j < merges.size(); ++j) {
      Merge& m = block[j];
      joined.assign(m.left).append(m.right);
      m.a = merge_part(m.left, first + j);
      m.b = merge_part(m.right, first + j);
      merged = data_.vocab.find_model_near(joined, merged + 1);
      if (merged < 0) merged = merge_part(joined, first + j);
      m.merged = merged;
      table.prefetch(m.a, m.b);
    }
    for (std::size_t j = 0; j < merges.size(); ++j) {
      const Merge& m = block[j];
      // Written text becomes a control token by its whole name only, never by merges.
      if (is_special(m.merged)) continue;
      table.add(m.a, m.b, {static_cast<std::uint32_t>(first + j), m.merged});
    }
    return merged;
  }

  const GgufFile& file_;
  bool word_pieces_ = false;
  Data data_;
  std::vector<std::int64_t> types_;
};

}  // namespace
}  // namespace tokenizer

Tokenizer Tokenizer::from_gguf(const GgufFile& file) {
  return Tokenizer(std::make_shared<const tokenizer::Data>(tokenizer::Reader(file).read()));
}

}  // namespace rlx
