// What a file may claim about a model: every value is checked before it sizes anything (F07),
// tensors against the model (F08).
#include <gtest/gtest.h>

#include <limits>

#include "error_text.h"
#include "flow/weight_sources.h"
#include "models/architecture.h"
#include "models/toy.h"

namespace rlx {
namespace {

using toy::contains;

struct BadValue {
  std::string key;
  toy::Put put;
  std::string_view expected;
};

TEST(GgufConfig, EachBadValueIsNamedWithItsFileKeyAndWhatWasExpected) {
  const std::vector<BadValue> rows = {
      {"llama.block_count", toy::u32(0), "expected 1 to 20, found 0"},
      {"llama.block_count", toy::u32(0x80000000), "expected 1 to 20, found 2147483648"},
      {"llama.block_count", toy::text("2"), "string"},
      {"llama.block_count", nullptr, "expected an integer, found none"},
      {"llama.embedding_length", toy::u32(0), "expected 1 to 2147483647, found 0"},
      {"llama.feed_forward_length", toy::u32(0), "found 0"},
      {"llama.vocab_size", toy::u32(0), "found 0"},
      {"llama.context_length", toy::u32(0), "expected 1 to 2147483647, found 0"},
      {"llama.attention.head_count", toy::u32(0), "expected 1 to 48, found 0"},
      {"llama.attention.head_count", toy::u32(1u << 30), "found 1073741824"},
      {"llama.attention.head_count_kv", toy::u32(3), "expected a divisor of the 4 heads, found 3"},
      {"llama.attention.head_count_kv", toy::u32(0), "expected a divisor of the 4 heads, found 0"},
      {"llama.attention.head_count_kv", toy::u32(8), "found 8"},
      {"llama.attention.key_length", toy::u32(1u << 20), "found 1048576"},
      {"llama.attention.value_length", toy::u32(4), "expected the size of the keys, 8, found 4"},
      {"llama.rope.dimension_count", toy::u32(7),
       "expected an even number of lanes, 2 to the head size 8, found 7"},
      {"llama.rope.dimension_count", toy::u32(10), "found 10"},
      {"llama.rope.dimension_count", toy::u32(0), "found 0"},
      {"llama.attention.layer_norm_rms_epsilon", toy::f32(-1e-5), "expected a number above 0"},
      {"llama.attention.layer_norm_rms_epsilon", toy::f32(0.0), "expected a number above 0"},
      {"llama.attention.layer_norm_rms_epsilon", toy::f32(std::numeric_limits<double>::quiet_NaN()),
       "found nan"},
      {"llama.rope.freq_base", toy::f32(0.0), "expected a number above 1, found 0"},
      {"llama.rope.scaling.type", toy::text("spiral"),
       "expected none, linear, yarn or longrope, found \"spiral\""},
      {"llama.expert_count", toy::u32(8), "expert_used_count: expected 1 to 8"},
      {"llama.hidden_activation", toy::text("sine"), "expected one of silu"},
  };
  for (const BadValue& row : rows) {
    toy::Spec spec = toy::llama();
    spec.metadata[row.key] = row.put;
    const std::string text = test::error_text([&] { toy::load(spec); });
    for (const std::string_view part :
         {std::string_view("toy.gguf"), std::string_view(row.key), row.expected})
      EXPECT_TRUE(contains(text, part)) << row.key << ": " << text;
  }
}

TEST(GgufConfig, AnUnknownArchitectureIsNamedWithTheKnownOnes) {
  toy::Spec spec = toy::llama();
  spec.metadata["general.architecture"] = toy::text("perceptron");
  const std::string text = test::error_text([&] { toy::load(spec); });
  for (const char* part : {"llama, mistral, qwen2, qwen3, gemma3", "\"perceptron\""})
    EXPECT_TRUE(contains(text, part)) << text;
}

TEST(GgufConfig, LayersAreLimitedByTheTensorsThereAre) {
  EXPECT_EQ(toy::load(toy::llama(513)).model.model.info.layers, 513);
}

TEST(GgufConfig, UnknownTensorsAreListedAndDoNotMatter) {
  toy::Spec spec = toy::llama();
  for (const char* name : {"extra.a", "extra.b", "extra.c"}) spec.tensors[name] = {4};
  const toy::Loaded loaded = toy::load(spec);
  EXPECT_EQ(loaded.model.model.unused, (std::vector<std::string>{"extra.a", "extra.b", "extra.c"}));
}

TEST(GgufConfig, MissingAndMisshapenTensorsAreListedTogether) {
  toy::Spec spec = toy::llama();
  spec.tensors.erase("blk.1.attn_k.weight");
  spec.tensors["blk.0.ffn_down.weight"] = {48, 32};
  const std::string text = test::error_text([&] { toy::load(spec); });
  for (const char* part : {"toy.gguf: 2 tensors", "blk.1.attn_k.weight: expected [16, 32], missing",
                           "blk.0.ffn_down.weight: expected [32, 48], found f32[48, 32]"})
    EXPECT_TRUE(contains(text, part)) << text;
}

TEST(GgufConfig, RopeOfTheFileIsRead) {
  toy::Spec spec = toy::llama();
  spec.metadata["llama.rope.scaling.type"] = toy::text("yarn");
  spec.metadata["llama.rope.scaling.factor"] = toy::f32(4.0);
  spec.metadata["llama.rope.scaling.original_context_length"] = toy::u32(16);
  spec.metadata["llama.rope.scaling.yarn_attn_factor"] = toy::f32(1.25);
  const DecoderConfig c = toy::load(spec).model.config;
  EXPECT_EQ(c.rope.scaling, RopeScaling::yarn);
  EXPECT_EQ(c.rope.original_context, 16);
  EXPECT_EQ(c.rope.attention_factor, 1.25);
  EXPECT_EQ(c.rope_style, RopeStyle::adjacent) << "GGUF files of this family permute wq and wk";
}

TEST(GgufConfig, RopeDivisorsAreReadAndChecked) {
  toy::Spec spec = toy::llama();
  spec.tensors["rope_freqs.weight"] = {4};
  EXPECT_TRUE(toy::load(spec).model.model.unused.empty());
  spec.tensors["rope_freqs.weight"] = {5};
  EXPECT_TRUE(
      contains(test::error_text([&] { toy::load(spec); }), "rope_freqs.weight: expected [4], found f32[5]"));
}

TEST(GgufConfig, HintsOfTheFileAreReadAndChecked) {
  toy::Spec spec = toy::llama();
  spec.metadata["tokenizer.ggml.eos_token_id"] = toy::u32(2);
  spec.metadata["tokenizer.ggml.eot_token_id"] = toy::u32(3);
  spec.metadata["general.sampling.temp"] = toy::f32(0.5);
  spec.metadata["general.sampling.top_k"] = toy::u32(20);
  const ModelHints hints = toy::load(spec).model.hints;
  EXPECT_EQ(hints.eos, (std::vector<std::int32_t>{2, 3}));
  EXPECT_EQ(hints.temperature, 0.5);
  EXPECT_EQ(hints.top_k, 20);
  EXPECT_FALSE(hints.top_p);
  spec.metadata["tokenizer.ggml.eos_token_id"] = toy::u32(16);
  EXPECT_TRUE(contains(test::error_text([&] { toy::load(spec); }),
                       "tokenizer.ggml.eos_token_id: expected a token 0 to 15, found 16"));
}

/// The config of a hub folder over the tensors of a toy of the same sizes.
DecoderConfig hub_config(const std::string& changes, std::string_view family = "LlamaForCausalLM") {
  const std::string base = fmt::format(
      R"({{"architectures": ["{}"], "num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 48,
           "vocab_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
           "max_position_embeddings": 64}})",
      family);
  const HubConfig hub = HubConfig::from_text(changes, "config.json").over(base);
  WeightMap weights("folder");
  for (int i = 0; i < 20; ++i) weights.add(fmt::format("t{}", i), {48}, std::vector<float>(48));
  return read_config(architecture_of_hub(hub), hub, weights);
}

TEST(HubConfig, EachBadValueIsNamedWithItsFileKeyAndWhatWasExpected) {
  struct Row {
    const char* changes;
    const char* message;
  };
  const Row rows[] = {
      {R"({"num_hidden_layers": 0})", "config.json: num_hidden_layers: expected 1 to 20, found 0"},
      {R"({"num_hidden_layers": "2"})",
       "config.json: num_hidden_layers: expected an integer, found \"2\""},
      {R"({"num_hidden_layers": 2.5})", "expected an integer, found 2.5"},
      {R"({"num_hidden_layers": 99999999999999999999})", "expected an integer"},
      {R"({"num_attention_heads": 0})", "num_attention_heads: expected 1 to 48, found 0"},
      {R"({"num_key_value_heads": 3})",
       "num_key_value_heads: expected a divisor of the 4 heads, found 3"},
      {R"({"head_dim": 7})", "an even number of lanes"},
      {R"({"head_dim": -8})", "head_dim: expected 1 to 12"},
      {R"({"rms_norm_eps": -1e-6})", "rms_norm_eps: expected a number above 0"},
      {R"({"max_position_embeddings": 0})",
       "max_position_embeddings: expected 1 to 2147483647, found 0"},
      {R"({"hidden_act": "sine"})", "hidden_act: expected one of silu"},
      {R"({"rope_theta": 0.5})", "rope_theta: expected a number above 1, found 0.5"},
      {R"({"rope_parameters": {"rope_type": "spiral"}})", "found \"spiral\""},
      {R"({"rope_parameters": {"rope_type": "linear"}})", "factor"},
      {R"({"rope_parameters": {"rope_type": "linear", "factor": 0}})",
       "rope_parameters.factor: expected a number above 0, found 0"},
      {R"({"rope_parameters": {"rope_type": "longrope", "factor": 2, "short_factor": [1]}})",
       "rope_parameters.short_factor: expected a number above 0 for each pair"},
      {R"({"rope_parameters": {"rope_type": "llama3", "factor": 2, "low_freq_factor": 4, "high_freq_factor": 4}})",
       "high_freq_factor: expected a number above low_freq_factor"},
      {R"({"rope_parameters": 5})", "rope_parameters: expected an object, found 5"},
      {R"({"architectures": ["PerceptronForCausalLM"]})", "expected one of LlamaForCausalLM"},
      {R"({"quantization_config": {"quant_method": "awq"}})", "quantization_config"},
  };
  for (const Row& row : rows) {
    const std::string text = test::error_text([&] { hub_config(row.changes); });
    EXPECT_TRUE(contains(text, row.message)) << row.changes << ": " << text;
  }
}

TEST(HubConfig, NewAndOldStyleOfRopeMeanTheSame) {
  const DecoderConfig newer =
      hub_config(R"({"rope_parameters": {"rope_type": "yarn", "rope_theta": 5e5, "factor": 4,
                                             "original_max_position_embeddings": 16, "beta_fast": 16}})");
  const DecoderConfig older =
      hub_config(R"({"rope_theta": 5e5, "rope_scaling": {"type": "yarn", "factor": 4,
                                             "original_max_position_embeddings": 16, "beta_fast": 16}})");
  EXPECT_EQ(newer.rope, older.rope);
  EXPECT_EQ(newer.rope.base, 5e5);
  EXPECT_EQ(newer.rope.scaling, RopeScaling::yarn);
}

TEST(HubConfig, BothStylesOfGemmasTwoBases) {
  const DecoderConfig newer =
      hub_config(R"({"num_hidden_layers": 7, "sliding_window": 8, "rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 1e6},
      "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}})",
                 "Gemma3ForCausalLM");
  const DecoderConfig older =
      hub_config(R"({"num_hidden_layers": 7, "sliding_window": 8, "rope_theta": 1e6,
      "rope_local_base_freq": 1e4, "rope_scaling": {"rope_type": "linear", "factor": 8}})",
                 "Gemma3ForCausalLM");
  EXPECT_EQ(newer.rope, older.rope);
  EXPECT_EQ(newer.local_rope, older.local_rope);
  EXPECT_EQ(older.local_rope.scaling, RopeScaling::none)
      << "scaling is for the layers with full attention";
  EXPECT_EQ(older.windowed, (std::vector<bool>{true, true, true, true, true, false, true}));
  EXPECT_EQ(older.norm_offset, 1.0);
}

TEST(HubConfig, WindowsByFamily) {
  EXPECT_EQ(hub_config(R"({"sliding_window": 8})").window_of(0), 0) << "Llama has none";
  EXPECT_EQ(hub_config(R"({"sliding_window": 8})", "MistralForCausalLM").window_of(1), 8);
  EXPECT_EQ(hub_config(R"({"sliding_window": null})", "MistralForCausalLM").window_of(1), 0);
  const DecoderConfig off =
      hub_config(R"({"sliding_window": 8, "max_window_layers": 1})", "Qwen2ForCausalLM");
  EXPECT_EQ(off.window_of(1), 0);
  const DecoderConfig on =
      hub_config(R"({"use_sliding_window": true, "sliding_window": 8, "max_window_layers": 1})",
                 "Qwen2ForCausalLM");
  EXPECT_EQ(on.window_of(0), 0);
  EXPECT_EQ(on.window_of(1), 8);
}

TEST(HubConfig, GenerationConfigComesBeforeConfig) {
  const HubConfig config =
      HubConfig::from_text(R"({"eos_token_id": 2, "bos_token_id": 1})", "config.json");
  const HubConfig generation = HubConfig::from_text(
      R"({"eos_token_id": [5, 6, 5], "do_sample": true, "temperature": 0.7,
          "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.1})",
      "generation_config.json");
  EXPECT_EQ(read_hints(config, nullptr, 16).eos, std::vector<std::int32_t>{2});
  const ModelHints hints = read_hints(config, &generation, 16);
  EXPECT_EQ(hints.eos, (std::vector<std::int32_t>{5, 6}));
  EXPECT_EQ(hints.bos, 1);
  EXPECT_EQ(hints.do_sample, true);
  EXPECT_EQ(hints.repetition_penalty, 1.1);
  const HubConfig bad = HubConfig::from_text(R"({"top_p": 1.5})", "generation_config.json");
  EXPECT_TRUE(contains(test::error_text([&] { read_hints(config, &bad, 16); }),
                       "generation_config.json: top_p: expected 0 to 1, found 1.5"));
}

}  // namespace
}  // namespace rlx
