// Small tokenizers, written out, and shorthands for tests.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "text/tokenizer/tokenizer.h"

namespace rlx::toy {

using Ids = std::vector<std::int32_t>;
using Json = nlohmann::ordered_json;

/// A tokenizer.json with the given pieces (ids in order) and merges ("a b").
inline Json bpe(const std::vector<std::string>& pieces, const std::vector<std::string>& merges) {
  Json vocab = Json::object();
  for (std::size_t i = 0; i < pieces.size(); ++i) vocab[pieces[i]] = i;
  return {{"version", "1.0"},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder", nullptr},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}};
}

inline Json added(int id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

inline Tokenizer make(const Json& json) { return Tokenizer::from_json(json.dump(), "toy.json"); }

/// "gpt2": a golden tokenizer of that name.
inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(RLX_TEST_DIR) / "goldens" / "tokenizers" / name;
}
inline Tokenizer golden_tokenizer(const std::string& name) {
  return Tokenizer::from_json_file(golden(name) / "tokenizer.json");
}

/// The tokenizer of what a writer holds, through a file of the test's own.
inline Tokenizer tokenizer_of(const GgufWriter& writer) {
  const auto path = std::filesystem::path(testing::TempDir()) /
                    (std::string("toy-") +
                     testing::UnitTest::GetInstance()->current_test_info()->name() + ".gguf");
  writer.write(path);
  struct Remove {
    std::filesystem::path path;
    ~Remove() { std::filesystem::remove(path); }
  } remove{path};
  return Tokenizer::from_gguf(GgufFile(path));
}

/// A SentencePiece vocabulary as a GGUF file, in a temporary file.
struct Piece {
  std::string text;
  double score;
  int type;  ///< tokenizer.ggml.token_type
};
inline Tokenizer sentencepiece(const std::vector<Piece>& pieces,
                               const std::function<void(GgufWriter&)>& more = {}) {
  std::vector<std::string_view> texts;
  std::vector<double> scores;
  std::vector<std::int64_t> types;
  for (const Piece& p : pieces) {
    texts.push_back(p.text);
    scores.push_back(p.score);
    types.push_back(p.type);
  }
  GgufWriter writer;
  writer.put_string("general.architecture", "llama");
  writer.put_string("tokenizer.ggml.model", "llama");
  writer.put_strings("tokenizer.ggml.tokens", texts);
  writer.put_floats("tokenizer.ggml.scores", GgufType::f32, scores);
  writer.put_ints("tokenizer.ggml.token_type", GgufType::i32, types);
  if (more) more(writer);
  return tokenizer_of(writer);
}

/// The message of the Error that `f` throws; fails the test when there is none or its code differs.
template <typename F>
std::string error_of(ErrorCode code, F&& f) {
  try {
    std::forward<F>(f)();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

inline std::string repeat(std::string_view text, std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += text;
  return out;
}

/// Letters, digits, signs, spaces of all kinds, marks, emoji.
inline std::string random_text(std::mt19937& random, std::size_t length) {
  static const std::vector<std::string> kParts = {"a",
                                                  "b",
                                                  "Z",
                                                  "the",
                                                  "ing",
                                                  " ",
                                                  "  ",
                                                  "\t",
                                                  "\n",
                                                  "\r\n",
                                                  "1",
                                                  "23",
                                                  "4567",
                                                  ".",
                                                  "...",
                                                  "'s",
                                                  "'LL",
                                                  "_",
                                                  "(",
                                                  ")",
                                                  "{",
                                                  "==",
                                                  "\xC3\xA9",
                                                  "e\xCC\x81",
                                                  "\xE6\xB1\x89",
                                                  "\xF0\x9F\x98\x80",
                                                  "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x94\xAC",
                                                  "\xC2\xA0",
                                                  "\xE3\x80\x80",
                                                  "\xE2\x96\x81",
                                                  "\xD9\xA3",
                                                  "\xC2\xBD",
                                                  "<s>",
                                                  "</s>",
                                                  "\xEA\xB0\x80"};
  std::string out;
  for (std::size_t i = 0; i < length; ++i) out += kParts[random() % kParts.size()];
  return out;
}

}  // namespace rlx::toy
