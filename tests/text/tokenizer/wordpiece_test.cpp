// WordPiece with BERT's normalizer, beyond the goldens: words without pieces, flags of the file, wrong files.
#include "text/tokenizer/toy.h"

namespace rlx {
namespace {

using toy::Ids;
using toy::Json;

Json word_pieces(const std::vector<std::string>& pieces, Json normalizer) {
  Json json = toy::bpe(pieces, {});
  json["normalizer"] = std::move(normalizer);
  json["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  json["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  json["model"].erase("merges");
  json["model"]["type"] = "WordPiece";
  return json;
}
Json bert(bool lowercase) {
  return {{"type", "BertNormalizer"}, {"clean_text", true}, {"handle_chinese_chars", true},
          {"strip_accents", nullptr}, {"lowercase", lowercase}};
}

TEST(WordPiece, AccentsGoAndChineseCharactersStandAlone) {
  const Tokenizer t = toy::make(
      word_pieces({"[UNK]", "kant", "##o", "lu", "##shi", "\xE5\x8F\xB2", ".", "hello"}, bert(true)));
  EXPECT_EQ(t.encode("Kant\xC5\x8D"), (Ids{1, 2}));
  EXPECT_EQ(t.encode("l\xC7\x9Cshi"), (Ids{3, 4}));
  EXPECT_EQ(t.encode("\xE5\x8F\xB2hello."), (Ids{5, 7, 6}));
  EXPECT_EQ(t.encode("hellox kanto"), (Ids{0, 1, 2})) << "a word that the pieces do not make up is one unknown";
  EXPECT_EQ(t.encode("hel\x0Blo\tkant"), (Ids{7, 1})) << "a vertical tab goes, a tab cuts";
}

TEST(WordPiece, TheFlagsAreTheFiles) {
  const Tokenizer t = toy::make(word_pieces({"[UNK]", "\xC3\x9C" "ber", "uber", "a", "##a"}, bert(false)));
  EXPECT_EQ(t.encode("\xC3\x9C" "ber"), (Ids{1})) << "a null for accents follows lowercase";
  EXPECT_EQ(t.encode(toy::repeat("a", 100)).size(), 100u);
  EXPECT_EQ(t.encode(toy::repeat("a", 101)), (Ids{0}));
  Json shorter = word_pieces({"[UNK]", "a", "##a"}, bert(true));
  shorter["model"]["max_input_chars_per_word"] = 2;
  EXPECT_EQ(toy::make(shorter).encode("aa aaa"), (Ids{1, 2, 0}));
}

TEST(WordPiece, DecodingJoinsWordsAndTidiesPunctuation) {
  const Tokenizer t = toy::make(
      word_pieces({"[UNK]", "it", "'", "s", "fun", "##ny", "!", "\xC3\xA9", "##\xC3\xA9"}, bert(true)));
  EXPECT_EQ(t.decode(Ids{4, 5, 6}), "funny!");
  EXPECT_EQ(t.decode(Ids{5, 4}), "##ny fun") << "the first token is written as it is";
  EXPECT_EQ(t.token_bytes(5), "ny");
}

TEST(WordPiece, AGgufFileMarksTheBeginningOfWords) {
  const std::vector<std::string_view> tokens = {
      "[PAD]", "[UNK]", "[CLS]", "[SEP]", "\xE2\x96\x81" "fun", "ny", "\xE2\x96\x81!"};
  const std::vector<std::int64_t> types = {3, 3, 3, 3, 1, 1, 1};
  GgufWriter w;
  w.put_string("general.architecture", "bert");
  w.put_string("tokenizer.ggml.model", "bert");
  w.put_strings("tokenizer.ggml.tokens", tokens);
  w.put_ints("tokenizer.ggml.token_type", GgufType::i32, types);
  w.put_int("tokenizer.ggml.unknown_token_id", GgufType::u32, 1);
  w.put_int("tokenizer.ggml.cls_token_id", GgufType::u32, 2);
  w.put_int("tokenizer.ggml.seperator_token_id", GgufType::u32, 3);
  const Tokenizer t = toy::tokenizer_of(w);
  EXPECT_EQ(t.encode("F\xC3\xBCnny! ny"), (Ids{2, 4, 5, 6, 1, 3}));
  EXPECT_EQ(t.decode(t.encode("funny!"), true), "funny!");
}

TEST(WordPiece, WrongFilesAreNamed) {
  const Tokenizer none = toy::make(word_pieces({"a"}, bert(true)));
  EXPECT_EQ(none.encode("a a"), (Ids{0, 0}));
  EXPECT_NE(toy::error_of(ErrorCode::format, [&] { none.encode("b"); }).find("unk_token \"[UNK]\""), std::string::npos);
  Json json = word_pieces({"a"}, bert(true));
  json["model"]["max_input_chars_per_word"] = -1;
  EXPECT_NE(toy::error_of(ErrorCode::format, [&] { toy::make(json); }).find("max_input_chars_per_word"),
            std::string::npos);
  json["model"].erase("vocab");
  EXPECT_NE(toy::error_of(ErrorCode::format, [&] { toy::make(json); }).find("vocab"), std::string::npos);
}

}  // namespace
}  // namespace rlx
