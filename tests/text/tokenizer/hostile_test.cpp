// Files that are broken or hostile: the error is the file's, names it and stays short.
#include <filesystem>
#include <fstream>

#include "text/tokenizer/toy.h"

namespace rlx {
namespace {

using toy::error_of;
using toy::Json;
using toy::repeat;

Json with_pattern(const std::string& pattern) {
  Json j = toy::bpe({"a", "b"}, {});
  j["pre_tokenizer"] = {{"type", "Split"},
                        {"pattern", {{"Regex", pattern}}},
                        {"behavior", "Isolated"},
                        {"invert", false}};
  return j;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(HostileTokenizer, replacements_cannot_blow_up_a_text) {
  Json j = toy::bpe({"a", "b"}, {});
  const auto replace = [](const std::string& content) {
    return Json{{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", content}};
  };
  j["normalizer"] = replace(repeat("a", 1 << 20));
  const Tokenizer large = toy::make(j);
  EXPECT_TRUE(
      error_of(ErrorCode::format, [&] { large.encode(repeat("a", 100)); }).starts_with("toy.json: "));
  EXPECT_EQ(large.encode("b").size(), 1u);

  // Doubling 40 times stops at the bound of the whole text, not of each step.
  Json steps = Json::array();
  for (int i = 0; i < 40; ++i) steps.push_back(replace("aa"));
  j["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  const Tokenizer doubling = toy::make(j);
  error_of(ErrorCode::format, [&] { doubling.encode(repeat("a", 100)); });

  // So does a prefix before each of many sections.
  j["normalizer"] = {{"type", "Prepend"}, {"prepend", repeat("b", 60000)}};
  j["added_tokens"] = Json::array({toy::added(2, "|", true)});
  const Tokenizer prefixes = toy::make(j);
  EXPECT_EQ(prefixes.encode("a").size(), 60001u);
  error_of(ErrorCode::format, [&] { prefixes.encode(repeat("a|", 100)); });

  // Honest growth passes.
  j["normalizer"] = replace(repeat("b", 60));
  EXPECT_EQ(toy::make(j).encode(repeat("a", 5000)).size(), 300000u);
}

TEST(HostileTokenizer, patterns_that_fail_are_the_files_fault) {
  const auto encode = [](const std::string& pattern, const std::string& text) {
    return error_of(ErrorCode::format,
                    [&] { toy::make(with_pattern(pattern)).encode(text); });
  };
  EXPECT_TRUE(encode("(a+)+$", repeat("a", 40) + "b").starts_with("toy.json: "));
  EXPECT_TRUE(encode("(", "a").starts_with("toy.json: pre_tokenizer: "));
  const std::string refused = error_of(
      ErrorCode::unsupported, [] { toy::make(with_pattern("(?<=a+)b")).encode("aab"); });
  EXPECT_TRUE(refused.starts_with("toy.json: pre_tokenizer: ")) << refused;
}

TEST(HostileTokenizer, a_recursive_pattern_is_an_error_of_the_file) {
  try {
    toy::make(with_pattern("(?R)")).encode("aab");
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_TRUE(e.code() == ErrorCode::format || e.code() == ErrorCode::unsupported) << e.what();
    EXPECT_TRUE(std::string_view(e.what()).starts_with("toy.json: ")) << e.what();
  }
}

TEST(HostileTokenizer, messages_cut_what_they_quote) {
  const std::string message = error_of(
      ErrorCode::format, [] { toy::make(with_pattern("(" + repeat("x", 5000))); });
  EXPECT_LT(message.size(), 400u);
  EXPECT_TRUE(has(message, "...")) << message;
}

TEST(HostileTokenizer, two_texts_of_one_id_name_the_file) {
  Json j = toy::bpe({"a", "b"}, {});
  j["model"]["vocab"]["b"] = 0;
  const std::string message = error_of(ErrorCode::format, [&] { toy::make(j); });
  EXPECT_EQ(message, "toy.json: token id 0 is given to two texts, 'a' and 'b'");
}

TEST(HostileTokenizer, text_that_is_not_json_names_line_and_byte) {
  const auto message = [](const std::string& text) {
    return error_of(ErrorCode::format, [&] { Tokenizer::from_json(text, "t.json"); });
  };
  EXPECT_EQ(message("{\n  \"a\": x}"), "t.json: not JSON: line 2, byte 8: unexpected 'x'");
  EXPECT_EQ(message("{\"a\": \"\x80\"}"), "t.json: not JSON: line 1, byte 8: unexpected '\\x80'");
  EXPECT_TRUE(has(message("{\"a\": "), "the text ends too early")) << message("{\"a\": ");
  EXPECT_TRUE(has(message(""), "the text ends too early"));
  EXPECT_FALSE(has(message("{\"a\": 1e999}"), "exception"));
}

TEST(HostileTokenizer, the_configuration_beside_it_is_named) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "hostile-tokenizer";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "tokenizer.json") << toy::bpe({"a"}, {}).dump();
  const std::string config = (folder / "tokenizer_config.json").string();
  const auto message = [&](const std::string& text) {
    std::ofstream(config) << text;
    return error_of(ErrorCode::format,
                    [&] { Tokenizer::from_json_file(folder / "tokenizer.json"); });
  };
  EXPECT_EQ(message("{\"a\": " + repeat("[", 100) + repeat("]", 100) + "}"),
            config + ": nested deeper than 64");
  EXPECT_EQ(message("{]"), config + ": not JSON: line 1, byte 2: unexpected ']'");
  EXPECT_EQ(message("[]"), config + ": expected an object, found array");
  std::filesystem::remove_all(folder);
}

Tokenizer from_gguf(const std::function<void(GgufWriter&)>& fill) {
  GgufWriter writer;
  writer.put_string("general.architecture", "llama");
  writer.put_string("tokenizer.ggml.model", "gpt2");
  fill(writer);
  return toy::tokenizer_of(writer);
}

TEST(HostileTokenizer, an_unknown_pre_tokenizer_names_file_and_known_ones) {
  const std::vector<std::string_view> tokens = {"a"};
  const std::string message = error_of(ErrorCode::unsupported, [&] {
    from_gguf([&](GgufWriter& w) {
      w.put_strings("tokenizer.ggml.tokens", tokens);
      w.put_string("tokenizer.ggml.pre", "nope\xFF");
    });
  });
  EXPECT_TRUE(has(message, "known_ones.gguf: tokenizer.ggml.pre: the pre-tokenizer 'nope\\xff'"))
      << message;
  EXPECT_TRUE(has(message, "gpt-2")) << message;
  EXPECT_LT(message.size(), 400u);
}

TEST(HostileTokenizer, a_vocabulary_needs_a_token) {
  const std::vector<std::string_view> none;
  const std::string message = error_of(ErrorCode::format, [&] {
    from_gguf([&](GgufWriter& w) { w.put_strings("tokenizer.ggml.tokens", none); });
  });
  EXPECT_TRUE(has(message, "tokenizer.ggml.tokens: expected 1 to 2147483647 tokens, found 0"))
      << message;
}

}  // namespace
}  // namespace rlx
