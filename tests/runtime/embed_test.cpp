// Texts to vectors: poolings against their definitions, the files that choose them, limits that keep special tokens.
#include "runtime/embed.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "error_text.h"
#include "formats/gguf_writer.h"
#include "toy_encoder.h"

namespace rlx::runtime_embed_tests {
namespace {

namespace fs = std::filesystem;
using test::ToyEncoder;
using Ids = std::vector<std::int32_t>;

Embedder open(const ToyEncoder& toy, EmbedOptions options = {}) {
  options.encoder.threads = 1;
  options.encoder.compile.precision.activations = Activations::f32;
  return Embedder(load_model(toy.path()), options);
}

EmbedConfig config_of(const ToyEncoder& toy) { return read_embed_config(load_model(toy.path())); }

std::string refusal(const ToyEncoder& toy, ErrorCode code = ErrorCode::format) {
  return test::error_text(code, [&] { config_of(toy); });
}

/// The hidden rows of ids, [tokens, 64], by the encoder itself.
std::vector<float> rows_of(const ToyEncoder& toy, const Ids& ids) {
  EncoderOptions options;
  options.threads = 1;
  options.compile.precision.activations = Activations::f32;
  EncoderModel model(load_model(toy.path()), options);
  const TokenSequence s{ids, {}};
  const HiddenRows rows = model.run({&s, 1});
  return {rows.sequence(0).begin(), rows.sequence(0).end()};
}

double length(const TextVector& e) {
  double sum = 0;
  for (const float v : e) sum += double{v} * double{v};
  return std::sqrt(sum);
}

void expect_near(const TextVector& found, const std::vector<double>& expected, const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << what << " " << i;
}

TEST(Embed, EveryPoolingIsItsDefinition) {
  const ToyEncoder toy;
  toy.write("modules.json", ToyEncoder::modules(false));
  const Ids ids = {1, 30, 40, 50, 2};
  const std::vector<float> rows = rows_of(toy, ids);
  const auto at = [&](std::size_t i, std::size_t h) { return double{rows[i * 64 + h]}; };
  std::vector<double> cls, last, most, mean, root, weighted;
  for (std::size_t h = 0; h < 64; ++h) {
    double sum = 0, high = at(0, h), rising = 0;
    for (std::size_t i = 0; i < 5; ++i) {
      sum += at(i, h);
      high = std::max(high, at(i, h));
      rising += static_cast<double>(i + 1) * at(i, h);
    }
    cls.push_back(at(0, h));
    last.push_back(at(4, h));
    most.push_back(high);
    mean.push_back(sum / 5);
    root.push_back(sum / std::sqrt(5.0));
    weighted.push_back(rising / 15);
  }
  const std::pair<const char*, const std::vector<double>&> all[] = {
      {"cls_token", cls}, {"max_tokens", most},          {"mean_tokens", mean}, {"mean_sqrt_len_tokens", root},
      {"lasttoken", last}, {"weightedmean_tokens", weighted}};
  for (const auto& [key, expected] : all) {
    nlohmann::json config = {{"pooling_mode_mean_tokens", false}};
    config[fmt::format("pooling_mode_{}", key)] = true;
    toy.pooling(config);
    expect_near(open(toy).embed_tokens({&ids, 1}).at(0), expected, key);
  }
  toy.pooling({{"pooling_mode_mean_tokens", true}, {"pooling_mode_cls_token", true}});
  Embedder both = open(toy);
  EXPECT_EQ(both.size(), 128);
  std::vector<double> joined = cls;
  joined.insert(joined.end(), mean.begin(), mean.end());
  expect_near(both.embed_tokens({&ids, 1}).at(0), joined, "cls, then mean");
  toy.pooling({{"pooling_mode", "lasttoken"}});
  expect_near(open(toy).embed_tokens({&ids, 1}).at(0), last, "the newer key");
  EmbedOptions chosen;
  chosen.pooling = Pooling::max;
  expect_near(open(toy, chosen).embed_tokens({&ids, 1}).at(0), most, "the caller's");
}

TEST(Embed, LengthIsOneWhereTheFilesSaySo) {
  const ToyEncoder toy;
  const std::vector<std::string> texts = {"a cat"};
  EXPECT_NEAR(length(open(toy).embed(texts).at(0)), 1, 1e-6) << "without any file";
  EmbedOptions raw;
  raw.normalize = false;
  EXPECT_GT(std::abs(length(open(toy, raw).embed(texts).at(0)) - 1), 0.1);
  toy.pooling({});
  toy.write("modules.json", ToyEncoder::modules(false));
  EXPECT_GT(std::abs(length(open(toy).embed(texts).at(0)) - 1), 0.1) << "no Normalize module";
  toy.write("modules.json", ToyEncoder::modules(true));
  EXPECT_NEAR(length(open(toy).embed(texts).at(0)), 1, 1e-6);
}

TEST(Embed, ATextIsTheSameInAnyCompany) {
  const ToyEncoder toy;
  EmbedOptions small;
  small.rows = 16;
  Embedder alone = open(toy), together = open(toy, small);
  std::vector<std::string> texts;
  for (int i = 0; i < 9; ++i) texts.push_back(std::string(static_cast<std::size_t>(i * 7), 'b') + "cd");
  const std::vector<TextVector> all = together.embed(texts);
  ASSERT_EQ(all.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(all[i], alone.embed({&texts[i], 1}).at(0)) << i;
  EXPECT_NE(all[1], all[2]);
  EXPECT_TRUE(alone.embed({}).empty());
}

TEST(Embed, LongTextsAreCutAndKeepTheirSpecialTokens) {
  const ToyEncoder toy;
  const Ids whole = open(toy).tokens("abcdefgh");
  ASSERT_EQ(whole.size(), 10u);
  toy.write("sentence_bert_config.json", R"({"max_seq_length": 5, "do_lower_case": false})");
  const Ids cut = open(toy).tokens("abcdefgh");
  EXPECT_EQ(cut, (Ids{whole[0], whole[1], whole[2], whole[3], whole[9]}));
  EXPECT_EQ(open(toy).tokens("ab").size(), 4u);
  toy.write("sentence_bert_config.json", R"({"max_seq_length": null})");
  toy.write("tokenizer_config.json", R"({"model_max_length": 6})");
  EXPECT_EQ(open(toy).tokens("abcdefgh").size(), 6u) << "the tokenizer's, when nothing else says so";
  toy.write("tokenizer_config.json", R"({"model_max_length": 1000000000000000019884624838656})");
  EXPECT_EQ(open(toy).tokens(std::string(500, 'x')).size(), 128u) << "the model's positions";
  toy.write("sentence_bert_config.json", R"({"max_seq_length": 2})");
  EXPECT_NE(test::error_text(ErrorCode::format, [&] { open(toy).tokens("abc"); }).find("2 special tokens"),
            std::string::npos);
}

TEST(Embed, APromptStandsBeforeEveryTextAndMayBeLeftOutOfThePool) {
  const ToyEncoder toy;
  toy.write("config_sentence_transformers.json",
            R"({"prompts": {"query": "ab", "passage": "xyz"}, "default_prompt_name": "query"})");
  Embedder with = open(toy);
  const ToyEncoder plain;
  EXPECT_EQ(with.tokens("cd"), open(plain).tokens("abcd"));
  const std::vector<std::string> text = {"cd"}, whole = {"abcd"};
  EXPECT_EQ(with.embed(text), open(plain).embed(whole));
  toy.pooling({{"include_prompt", false}});
  toy.write("modules.json", ToyEncoder::modules(false));
  const std::vector<float> rows = rows_of(plain, open(plain).tokens("abcd"));  // [CLS] a b c d [SEP]
  std::vector<double> mean;
  for (std::size_t h = 0; h < 64; ++h)
    mean.push_back((double{rows[3 * 64 + h]} + double{rows[4 * 64 + h]} + double{rows[5 * 64 + h]}) / 3);
  expect_near(open(toy).embed(text).at(0), mean, "c d [SEP]");
  toy.write("config_sentence_transformers.json", R"({"prompts": {}, "default_prompt_name": "query"})");
  EXPECT_NE(refusal(toy).find("default_prompt_name: expected a name in prompts, found \"query\""), std::string::npos);
}

TEST(Embed, TextsAreLowercasedWhereTheFileSaysSo) {
  const ToyEncoder toy;
  EXPECT_NE(open(toy).tokens("AB"), open(toy).tokens("ab"));
  toy.write("sentence_bert_config.json", R"({"max_seq_length": 64, "do_lower_case": true})");
  EXPECT_EQ(open(toy).tokens("AB"), open(toy).tokens("ab"));
}

TEST(Embed, WrongFilesAreNamed) {
  const ToyEncoder toy;
  const auto with = [&](const char* name, const char* content, ErrorCode code = ErrorCode::format) {
    toy.write(name, content);
    return refusal(toy, code);
  };
  EXPECT_NE(with("1_Pooling/config.json", "{").find("1_Pooling/config.json: expected JSON"), std::string::npos);
  EXPECT_NE(with("1_Pooling/config.json", R"({"pooling_mode_cls_token": "yes"})")
                .find("config.json: pooling_mode_cls_token: expected true or false, found \"yes\""),
            std::string::npos);
  EXPECT_NE(with("1_Pooling/config.json", R"({"word_embedding_dimension": 384})")
                .find("word_embedding_dimension: expected the model's 64, found 384"),
            std::string::npos);
  EXPECT_NE(with("1_Pooling/config.json", R"({"pooling_mode_mean_tokens": false})").find("expected one that is true"),
            std::string::npos);
  EXPECT_NE(with("1_Pooling/config.json", R"({"pooling_mode": "median"})").find("found \"median\""), std::string::npos);
  toy.pooling({});
  EXPECT_NE(with("modules.json", "{}").find("modules.json: expected a JSON list of modules, found object"),
            std::string::npos);
  EXPECT_NE(with("modules.json", R"([{"type": "a.Transformer", "path": ""}])").find("type Pooling, found none"),
            std::string::npos);
  EXPECT_NE(with("modules.json", R"([{"type": "a.Pooling"}])").find("[0]: path: expected a string, found none"),
            std::string::npos);
  EXPECT_NE(with("modules.json", R"([{"type": "a.Pooling", "path": "../x"}])").find("found \"../x\""),
            std::string::npos);
  EXPECT_NE(with("modules.json", R"([{"type": "a.b.Dense", "path": "2_Dense"}])", ErrorCode::unsupported)
                .find("expected Transformer, Pooling or Normalize, found \"a.b.Dense\""),
            std::string::npos);
  toy.write("modules.json", ToyEncoder::modules(true));
  EXPECT_NE(with("sentence_bert_config.json", R"({"max_seq_length": 0})").find("max_seq_length: expected 1 or more"),
            std::string::npos);
}

/// A model whose GGUF file has this pooling_type; without one when it is below 0.
LoadedModel gguf_with(std::int64_t type) {
  struct Owned {
    std::vector<std::byte> bytes;
    GgufFile file;
    explicit Owned(std::vector<std::byte> b) : bytes(std::move(b)), file(GgufFile::from_bytes(bytes, "toy.gguf")) {}
  };
  GgufWriter writer;
  writer.put_string("general.architecture", "bert");
  if (type >= 0) writer.put_int("bert.pooling_type", GgufType::u32, type);
  LoadedModel model;
  model.model.info.context = 77;
  const auto owned = std::make_shared<Owned>(writer.bytes());
  model.gguf = std::shared_ptr<const GgufFile>(owned, &owned->file);
  return model;
}

TEST(Embed, AGgufFileNamesItsPooling) {
  const auto pooling = [](std::int64_t type) { return read_embed_config(gguf_with(type)).pooling; };
  EXPECT_EQ(pooling(-1), (std::vector{Pooling::mean}));
  EXPECT_EQ(pooling(1), (std::vector{Pooling::mean}));
  EXPECT_EQ(pooling(2), (std::vector{Pooling::cls}));
  EXPECT_EQ(pooling(3), (std::vector{Pooling::last}));
  EXPECT_EQ(read_embed_config(gguf_with(2)).max_tokens, 77);
  EXPECT_TRUE(read_embed_config(gguf_with(2)).normalize);
  EXPECT_EQ(read_embed_config(gguf_with(4), Pooling::max).pooling, (std::vector{Pooling::max}));
  const std::string rank = test::error_text(ErrorCode::unsupported, [&] { pooling(4); });
  EXPECT_NE(rank.find("toy.gguf: bert.pooling_type: expected 1"), std::string::npos) << rank;
  EXPECT_NE(test::error_text(ErrorCode::unsupported, [&] { pooling(0); }).find("--pooling"), std::string::npos);
  EXPECT_EQ(test::error_text(ErrorCode::format, [&] { pooling(9); }),
            "toy.gguf: bert.pooling_type: expected 0 to 4, found 9");
}

TEST(Embed, OtherKindsOfModelsSayWhatTheyAre) {
  for (const char* name : {"vit", "llama"}) {
    const std::string text = test::error_text(ErrorCode::unsupported, [&] {
      Embedder(load_model(fs::path(RLX_TEST_DIR) / "goldens/models" / name));
    });
    EXPECT_NE(text.find("expected an encoder of texts"), std::string::npos) << text;
  }
  EXPECT_NE(test::error_text(ErrorCode::io,
                             [&] {
                               Embedder(load_model(fs::path(RLX_TEST_DIR) / "goldens/models/bert"));
                             })
                .find("expected tokenizer.json beside config.json"),
            std::string::npos);
}

}  // namespace
}  // namespace rlx::runtime_embed_tests
