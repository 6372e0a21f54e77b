// Every golden family builds with the documented boundaries; foreign paths are named with what was
// expected.
#include "models/load.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <set>

#include "error_text.h"
#include "ir/source.h"
#include "models/toy.h"
#include "ops/block.h"
#include "ops/index.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;
using toy::contains;

fs::path golden(const std::string& name) {
  return fs::path(RLX_TEST_DIR) / "goldens/models" / name;
}

class Goldens : public testing::TestWithParam<const char*> {};

TEST_P(Goldens, BuildWithTheDocumentedBoundaries) {
  const LoadedModel loaded = load_model(golden(GetParam()));
  const Graph& g = loaded.model.graph;
  std::set<std::string> inputs, states;
  for (const Node& n : g.nodes()) {
    if (n.is<Input>()) inputs.insert(n.name);
    if (n.is<State>()) states.insert(n.name);
    EXPECT_FALSE(n.origin.empty());
  }
  EXPECT_EQ(inputs, (std::set<std::string>{"tokens", "positions", "seq_start", "past", "slot",
                                           "out_rows"}));
  EXPECT_EQ(static_cast<std::int64_t>(states.size()), loaded.config.layers + 1);
  EXPECT_TRUE(states.contains("pages"));
  EXPECT_TRUE(states.contains("kv.0"));
  ASSERT_EQ(g.outputs().size(), 1u);
  EXPECT_EQ(g.outputs()[0].name, "logits");
  EXPECT_EQ(g.shape(g.outputs()[0].value), Shape({sym::out_rows, Dim(160)}, DType::f32));
  EXPECT_EQ(g.shape(g.find_source("seq_start")), Shape({Dim(sym::batch) + Dim(1)}, DType::i32));
  EXPECT_TRUE(loaded.model.unused.empty());
  EXPECT_EQ(loaded.hints.eos, std::vector<std::int32_t>{2});
  std::size_t at = 0;
  for (const Node& n : g.nodes()) {
    if (!n.is<Param>()) continue;
    EXPECT_EQ(n.name, loaded.model.params[at++].name) << "params stand in the order of their nodes";
  }
  EXPECT_EQ(at, loaded.model.params.size());
}

INSTANTIATE_TEST_SUITE_P(Models, Goldens,
                         testing::Values("llama", "llama3_rope", "llama_linear_rope",
                                         "llama_tied_bias", "llama_yarn", "mistral_sliding", "qwen3_moe", "mixtral",
                                         "qwen2", "qwen3", "gemma3"));

std::vector<SelfAttention> attentions(const LoadedModel& m) {
  std::vector<SelfAttention> list;
  for (const Node& n : m.model.graph.nodes())
    if (const auto a = n.as<SelfAttention>()) list.push_back(*a);
  return list;
}

TEST(Load, EachFamilyHasItsOwnAttention) {
  const SelfAttention llama = attentions(load_model(golden("llama")))[0];
  EXPECT_EQ(llama.style, RopeStyle::half);
  EXPECT_FLOAT_EQ(llama.scale, 0.25f);
  EXPECT_FALSE(llama.qkv_bias || llama.out_bias || llama.qk_norm);
  const SelfAttention biased = attentions(load_model(golden("llama_tied_bias")))[0];
  EXPECT_TRUE(biased.qkv_bias && biased.out_bias);
  EXPECT_NEAR(attentions(load_model(golden("llama_yarn")))[0].magnitude, 0.1 * std::log(4.0) + 1.0,
              1e-6);
  EXPECT_EQ(attentions(load_model(golden("mistral_sliding")))[1].window, 8);
  const SelfAttention qwen2 = attentions(load_model(golden("qwen2")))[0];
  EXPECT_TRUE(qwen2.qkv_bias && !qwen2.out_bias);
  EXPECT_TRUE(attentions(load_model(golden("qwen3")))[0].qk_norm);
}

TEST(Load, GemmaAlternatesWindowsAndScalesItsEmbedding) {
  const LoadedModel m = load_model(golden("gemma3"));
  const std::vector<SelfAttention> list = attentions(m);
  ASSERT_EQ(list.size(), 7u);
  for (std::size_t i = 0; i < list.size(); ++i) EXPECT_EQ(list[i].window, i == 5 ? 0 : 8);
  EXPECT_FLOAT_EQ(list[0].scale, static_cast<float>(1.0 / std::sqrt(24.0)));
  EXPECT_EQ(list[0].weight_offset, 1.0f);
  for (const Node& n : m.model.graph.nodes()) {
    if (const auto e = n.as<Embedding>()) {
      EXPECT_EQ(e->scale, 8.0f);
    }
  }
}

TEST(Load, ForeignAndMissingPathsAreNamed) {
  const fs::path dir = fs::temp_directory_path() / fmt::format("rlx_load_test_{}", ::getpid());
  fs::create_directories(dir / "empty");
  std::ofstream(dir / "text.gguf") << "hello";
  std::ofstream(dir / "x.safetensors") << "{}{}{}";
  EXPECT_TRUE(contains(test::error_text([&] { load_model(dir / "none"); }), "found nothing"));
  EXPECT_TRUE(contains(test::error_text([&] { load_model(dir / "empty"); }), "found no config.json"));
  EXPECT_TRUE(contains(test::error_text([&] { load_model(dir / "text.gguf"); }), "expected a GGUF file"));
  EXPECT_TRUE(contains(test::error_text([&] { load_model(dir / "x.safetensors"); }), "given as its folder"));
  std::ofstream(dir / "empty/config.json") << "{";
  EXPECT_TRUE(contains(test::error_text([&] { load_model(dir / "empty"); }),
                       "model.safetensors.index.json, found neither"));
  std::ofstream(dir / "empty/model.safetensors") << "12345678";
  EXPECT_TRUE(contains(test::error_text([&] { load_model(dir / "empty"); }), "expected JSON"));
  fs::remove_all(dir);
}

TEST(Load, TheChatTemplateOfAFolderComesFromEitherFile) {
  const fs::path dir = fs::temp_directory_path() / fmt::format("rlx_template_test_{}", ::getpid());
  fs::create_directories(dir);
  for (const char* file : {"config.json", "model.safetensors"})
    fs::copy_file(golden("llama") / file, dir / file);
  EXPECT_EQ(load_model(dir).chat_template, "");
  std::ofstream(dir / "tokenizer_config.json")
      << R"({"chat_template": [{"name": "tools", "template": "T"},
                                                                       {"name": "default", "template": "D"}]})";
  EXPECT_EQ(load_model(dir).chat_template, "D");
  std::ofstream(dir / "tokenizer_config.json") << R"({"chat_template": "one"})";
  EXPECT_EQ(load_model(dir).chat_template, "one");
  std::ofstream(dir / "chat_template.jinja") << "file";
  EXPECT_EQ(load_model(dir).chat_template, "file");
  fs::remove_all(dir);
}

TEST(Load, ASessionsContextOutsideItsRangeIsAnError) {
  EXPECT_TRUE(contains(test::error_text([] { load_model(golden("llama"), BuildOptions{-1}); }), "found -1"));
}

}  // namespace
}  // namespace rlx
