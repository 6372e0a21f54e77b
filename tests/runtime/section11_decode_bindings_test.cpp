// Decoders in functional form (past keys and values in, present ones out) against the same decoders over a cache.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "base/error.h"
#include "error_text.h"
#include "models/load.h"
#include "runtime/decoder.h"
#include "runtime/model_pipeline.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

// quality.md, section 4.3: whole-model logits in f32.
constexpr double kLogitTolerance = 1e-5;
constexpr std::int64_t kPrompt = 7;

const Precision kPlain{Activations::f32, std::nullopt};

fs::path decode_model(std::string_view family) { return fs::path(RLX_TEST_DIR) / "goldens/models" / family; }

LoadedModel functional_model(std::string_view family, DecodeForm form = DecodeForm::functional) {
  BuildOptions options;
  options.form = form;
  return load_model(decode_model(family), options);
}

// Token i of sequence s.
std::int32_t decode_token(std::int64_t i, std::int64_t s, std::int64_t vocab) {
  return static_cast<std::int32_t>((i * 7 + s * 13 + 3) % vocab);
}

// A session in functional form: the present of a step is the past of the next.
class FunctionalSteps {
 public:
  FunctionalSteps(LoadedModel loaded, std::int64_t batch)
      : model_(std::move(loaded.model)), source_(model_id(model_), [this] { return model_; }), batch_(batch) {
    options_.precision = kPlain;
    const ModelInfo& info = model_.info;
    for (std::int64_t i = 0; i < info.layers; ++i)
      for (const char* kind : {"k", "v"})
        past_.push_back({fmt::format("past_{}.{}", kind, i), Tensor::zeros({batch, info.kv_heads, 0, info.head_dim})});
  }

  ModelCompilePipeline& pipeline() { return pipeline_; }
  const ModelInfo& info() const { return model_.info; }
  std::int64_t past_seq() const { return past_[0].tensor.dims()[2]; }
  void set_buckets(BucketPolicy buckets) { options_.buckets = std::move(buckets); }

  // Logits of the last row of each sequence. `mask`: values [seq, past + seq], for models that take one.
  Tensor step(std::int64_t seq, std::span<const float> mask = {}) {
    const std::int64_t past = past_seq();
    std::vector<std::int32_t> tokens, positions, out_rows;
    for (std::int64_t s = 0; s < batch_; ++s) {
      for (std::int64_t i = 0; i < seq; ++i) {
        tokens.push_back(decode_token(past + i, s, info().vocab));
        positions.push_back(static_cast<std::int32_t>(past + i));
      }
      out_rows.push_back(static_cast<std::int32_t>(tokens.size()) - 1);
    }
    std::vector<NamedTensor> inputs = past_;
    const auto add = [&](const char* name, const std::vector<std::int32_t>& values) {
      inputs.push_back({name, Tensor::from({static_cast<std::int64_t>(values.size())}, values)});
    };
    add("tokens", tokens);
    add("positions", positions);
    add("out_rows", out_rows);
    if (!mask.empty()) inputs.push_back({"mask", Tensor::from({seq, past + seq}, mask)});
    const ModelComponent component(ModelVariant::decode(batch_, past, seq));
    std::vector<NamedTensor> out = pipeline_.get_or_compile_component(component, source_, options_)->run(inputs);
    EXPECT_EQ(out.size(), past_.size() + 1);
    for (std::size_t i = 0; i < past_.size(); ++i) {
      NamedTensor& present = out[i + 1];
      EXPECT_EQ(present.name, "present" + past_[i].name.substr(4));
      EXPECT_EQ(present.tensor.dims()[2], past + seq);
      past_[i].tensor = std::move(present.tensor);
    }
    return std::move(out[0].tensor);
  }

 private:
  BuiltModel model_;
  ModelCompilePipeline pipeline_{Device::cpu()};
  HirSource source_;
  CompileOptions options_;
  std::int64_t batch_;
  std::vector<NamedTensor> past_;
};

// The same tokens through the cache.
std::vector<float> cached_step(Decoder& decoder, std::int64_t batch, std::int64_t seq) {
  std::vector<std::vector<std::int32_t>> tokens(static_cast<std::size_t>(batch));
  std::vector<Decoder::Part> parts;
  for (std::int64_t s = 0; s < batch; ++s) {
    auto& mine = tokens[static_cast<std::size_t>(s)];
    for (std::int64_t i = 0; i < seq; ++i)
      mine.push_back(decode_token(decoder.past(s) + i, s, decoder.info().vocab));
    parts.push_back({s, mine, Decoder::Want::last});
  }
  const std::span<const float> logits = decoder.step(parts);
  return {logits.begin(), logits.end()};
}

Decoder cached_decoder(std::string_view family, std::int64_t batch) {
  DecoderOptions options;
  options.threads = 1;
  options.context = 64;
  options.sequences = batch;
  options.compile.precision = kPlain;
  return Decoder(load_model(decode_model(family)), options);
}

double logit_distance(const Tensor& ours, const std::vector<float>& theirs) {
  const std::span<const float> a = ours.as<float>();
  if (a.size() != theirs.size()) return INFINITY;
  double diff = 0, largest = 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i])) return INFINITY;
    diff = std::max(diff, std::abs(double{a[i]} - double{theirs[i]}));
    largest = std::max(largest, std::abs(double{theirs[i]}));
  }
  return diff / largest;
}

class section11_DecodeForms : public testing::TestWithParam<const char*> {};

// A prompt behind no past, three single tokens, and a piece of several: every step as the cache has it.
TEST_P(section11_DecodeForms, PastInAndPresentOutGiveTheLogitsOfTheCache) {
  constexpr std::int64_t kBatch = 2;
  Decoder cached = cached_decoder(GetParam(), kBatch);
  FunctionalSteps steps(functional_model(GetParam()), kBatch);
  EXPECT_EQ(steps.info().form, DecodeForm::functional);
  for (const std::int64_t seq : {kPrompt, std::int64_t{1}, std::int64_t{1}, std::int64_t{1}, std::int64_t{3}})
    EXPECT_LT(logit_distance(steps.step(seq), cached_step(cached, kBatch, seq)), kLogitTolerance)
        << "a step of " << seq << " ending at " << steps.past_seq();
  EXPECT_EQ(steps.past_seq(), kPrompt + 6);
}

constexpr const char* kDecodeFamilies[] = {"llama",           "llama3_rope", "llama_linear_rope", "llama_tied_bias",
                                           "llama_yarn",      "qwen2",       "qwen3",             "gemma3",
                                           "mistral_sliding", "mixtral",     "qwen3_moe"};

INSTANTIATE_TEST_SUITE_P(Families, section11_DecodeForms, testing::ValuesIn(kDecodeFamilies),
                         [](const testing::TestParamInfo<const char*>& i) { return std::string(i.param); });

TEST(section11_DecodeBindings, EachPastIsAnExecutableAndABucketServesAllBelowIt) {
  FunctionalSteps exact(functional_model("llama"), 1);
  exact.step(kPrompt);
  for (int i = 0; i < 3; ++i) exact.step(1);
  EXPECT_EQ(exact.pipeline().size(), 4) << "a prompt, and pasts of 7, 8 and 9";

  Decoder cached = cached_decoder("llama", 1);
  FunctionalSteps bucketed(functional_model("llama"), 1);
  BucketPolicy buckets;
  buckets.set(sym::past_seq, BucketRule::list({16, 32}));
  bucketed.set_buckets(buckets);
  for (const std::int64_t seq : {kPrompt, std::int64_t{1}, std::int64_t{1}, std::int64_t{1}})
    EXPECT_LT(logit_distance(bucketed.step(seq), cached_step(cached, 1, seq)), kLogitTolerance);
  EXPECT_EQ(bucketed.pipeline().size(), 2) << "a prompt, and pasts up to 16";
  EXPECT_EQ(bucketed.pipeline().statistics().templates, 1);
}

// A mask of zeros changes nothing; one that hides the first two keys gives what a model sees that never had them.
TEST(section11_DecodeBindings, AMaskIsAddedToTheScores) {
  Decoder cached = cached_decoder("qwen3", 1);
  FunctionalSteps open(functional_model("qwen3", DecodeForm::functional_masked), 1);
  FunctionalSteps hidden(functional_model("qwen3", DecodeForm::functional_masked), 1);
  for (const std::int64_t seq : {kPrompt, std::int64_t{1}, std::int64_t{2}}) {
    const std::int64_t keys = open.past_seq() + seq;
    std::vector<float> mask(static_cast<std::size_t>(seq * keys), 0.0f);
    const std::vector<float> expected = cached_step(cached, 1, seq);
    EXPECT_LT(logit_distance(open.step(seq, mask), expected), kLogitTolerance);
    for (std::int64_t r = 0; r < seq; ++r)
      for (std::int64_t k = 0; k < std::min<std::int64_t>(2, keys - seq + r); ++k)
        mask[static_cast<std::size_t>(r * keys + k)] = -1e30f;
    EXPECT_GT(logit_distance(hidden.step(seq, mask), expected), 1e-3) << "hidden keys must not be seen";
  }
}

TEST(section11_DecodeBindings, WhatHasNoFunctionalFormSaysSo) {
  for (const char* family : {"mamba", "mamba2"}) {
    const std::string message = test::error_text(ErrorCode::unsupported, [&] { functional_model(family); });
    EXPECT_NE(message.find("keeps recurrent states and has the state form only"), std::string::npos) << message;
  }
  const std::string encoder = test::error_text(ErrorCode::unsupported, [] { functional_model("bert"); });
  EXPECT_NE(encoder.find("the functional form is one of decoders"), std::string::npos) << encoder;
  const std::string session = test::error_text(ErrorCode::unsupported, [] { Decoder(functional_model("llama"), {}); });
  EXPECT_NE(session.find("built in its functional form"), std::string::npos) << session;
}

TEST(section11_DecodeBindings, InputsOfTheFormHaveNoCache) {
  const LoadedModel loaded = functional_model("gemma3");
  const Graph& g = loaded.model.graph;
  EXPECT_FALSE(g.find_source("pages"));
  EXPECT_FALSE(g.find_source("seq_start"));
  const Value k = g.find_source("past_k.0");
  ASSERT_TRUE(k);
  EXPECT_EQ(g.shape(k).dim(2), Dim(sym::past_seq));
  EXPECT_EQ(g.outputs().size(), static_cast<std::size_t>(1 + 2 * loaded.model.info.layers));
  EXPECT_EQ(g.outputs()[0].name, "logits");
  EXPECT_EQ(g.outputs()[1].name, "present_k.0");
}

}  // namespace
}  // namespace rlx
