// Text to token ids and back, as the checkpoint's own tokenizer does it: byte-level BPE,
// SentencePiece BPE and WordPiece, from a tokenizer.json (https://huggingface.co/docs/tokenizers) or the
// tokenizer.ggml.* keys of a GGUF file (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
// Ids equal those of the reference libraries.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rlx {

class GgufFile;
namespace tokenizer {
struct Data;
class DecodeChain;
}  // namespace tokenizer

/// An immutable tokenizer; copies share the tables. Safe to use from several threads at once.
///
/// Text is UTF-8. Bytes that are not (a cut character, an overlong form, a surrogate) never throw:
/// each maximal invalid part is replaced by U+FFFD before anything else happens, as the Unicode
/// standard recommends (section 3.9). A zero byte is an ordinary character.
///
/// Decoding never tidies spaces before punctuation: `clean_up_tokenization_spaces` of a
/// checkpoint's configuration is ignored, since it alters code and quoted words.
class Tokenizer {
 public:
  /// From the text of a tokenizer.json; `origin` (a path) is named in messages.
  /// Errors: format (what is wrong and where); unsupported (a model, normalizer, pre-tokenizer,
  /// decoder or pattern that is known but not supported, named).
  static Tokenizer from_json(std::string_view json, const std::string& origin);

  /// The same from a file; a tokenizer_config.json beside it names the BOS and EOS tokens. Errors:
  /// also io.
  static Tokenizer from_json_file(const std::filesystem::path& path);

  /// From the tokenizer.ggml.* keys. Errors: format; unsupported (tokenizer.ggml.model or .pre,
  /// named).
  static Tokenizer from_gguf(const GgufFile& file);

  /// One more than the largest id.
  std::int64_t vocab_size() const;

  struct EncodeOptions {
    bool add_special = true;    ///< what the post-processor adds (BOS, EOS)
    bool parse_special = true;  ///< special tokens written out in the text become their ids
  };
  std::vector<std::int32_t> encode(std::string_view text, EncodeOptions options) const;
  std::vector<std::int32_t> encode(std::string_view text) const {
    return encode(text, EncodeOptions{});
  }

  /// Text whose origin is known: special tokens are found only where every byte of them is trusted
  /// (template text), so what a user writes never becomes one. The pieces are one text otherwise:
  /// words may span a border.
  struct Piece {
    std::string_view text;
    bool trusted = false;
  };
  std::vector<std::int32_t> encode_pieces(std::span<const Piece> pieces, bool add_special) const;

  /// The text of the ids, always valid UTF-8 (bytes that form no character are U+FFFD).
  /// Errors: invalid_argument when an id is outside [0, vocab_size()) or names no token.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const;

  /// The bytes that the token stands for within a text, possibly a part of a character. Errors: as
  /// decode.
  std::string token_bytes(std::int32_t id) const;

  bool is_special(std::int32_t id) const;  ///< false for ids out of range
  std::optional<std::int32_t> bos() const;
  std::optional<std::int32_t> eos() const;
  std::optional<std::int32_t> eot() const;  ///< end of a turn, where the file names one (GGUF)
  std::optional<std::int32_t> find(
      std::string_view token) const;  ///< id of a token by its text in the file
  bool adds_bos() const;              ///< encode with add_special begins with bos()
  bool adds_eos() const;              ///< encode with add_special ends with eos()

 private:
  friend class StreamDecoder;
  explicit Tokenizer(std::shared_ptr<const tokenizer::Data> data);

  std::shared_ptr<const tokenizer::Data> data_;
};

/// Decodes ids one by one. What push and finish return, joined, equals Tokenizer::decode of all the
/// ids, and each part is valid UTF-8. Bytes of an unfinished character (and, with byte-fallback
/// pieces, of an unfinished run of them, whose meaning depends on its end) are held back until it
/// is clear what they are.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = false);
  StreamDecoder(StreamDecoder&&) noexcept;
  StreamDecoder& operator=(StreamDecoder&&) noexcept;
  ~StreamDecoder();

  /// Text that became certain with this id; often empty. Errors: invalid_argument as
  /// Tokenizer::decode.
  std::string push(std::int32_t id);
  /// What is left; the decoder is then as new.
  std::string finish();

 private:
  std::shared_ptr<const tokenizer::Data> data_;
  std::unique_ptr<tokenizer::DecodeChain> chain_;
  bool skip_special_;
};

}  // namespace rlx
