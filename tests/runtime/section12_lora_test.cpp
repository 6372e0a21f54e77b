// Training of decoders: the functional form, LoRA factors tuned on a text, their file, and the model with them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "compiler/functional_form.h"
#include "error_text.h"
#include "ops/interpret.h"
#include "runtime/decoder.h"
#include "runtime/lora_tune.h"
#include "runtime/model_pipeline.h"
#include "runtime/toy_model.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

constexpr ToyShape kSmall{
    .vocab = 96, .hidden = 64, .inner = 96, .layers = 2, .heads = 4, .kv_heads = 2, .context = 64};

std::vector<std::int32_t> some_tokens(std::int64_t n) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < n; ++i) tokens.push_back(static_cast<std::int32_t>((i * 29 + i * i) % 96));
  return tokens;
}

Tensor counting(std::int64_t n) {
  std::vector<std::int32_t> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<std::int32_t>(i));
  return Tensor::from({n}, std::span<const std::int32_t>(values));
}

DecoderOptions exact() {
  DecoderOptions o;
  o.threads = 1;
  o.compile.precision = {Activations::f32, DType::f32};
  return o;
}

std::vector<float> decoder_logits(LoadedModel model, std::span<const std::int32_t> tokens) {
  Decoder decoder(std::move(model), exact());
  const std::span<const float> logits = decoder.step(tokens, Decoder::Want::all);
  return {logits.begin(), logits.end()};
}

double largest_difference(std::span<const float> x, std::span<const float> y) {
  EXPECT_EQ(x.size(), y.size());
  double most = 0;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
    most = std::max(most, std::abs(double{x[i]} - double{y[i]}));
  return most;
}

TEST(FunctionalForm, section11_GivesTheLogitsOfTheCachedForm) {
  const ToyModel toy(DType::q4_0, kSmall);
  const std::vector<std::int32_t> tokens = some_tokens(21);
  const LoadedModel model = toy.load();
  BuiltModel functional = model.model;
  functional.graph = functional_form(model.model.graph);
  for (const Node& n : functional.graph.nodes()) EXPECT_FALSE(n.def->has(Trait::state)) << n.def->name;

  Session session(Device::cpu());
  CompileOptions options;
  options.precision = exact().compile.precision;
  const auto graph = session.compile(HirSource([&] { return functional; }), options,
                                     {{sym::rows, 21}, {sym::out_rows, 21}});
  const auto out = graph->run({{"tokens", Tensor::from({21}, std::span<const std::int32_t>(tokens))},
                               {"positions", counting(21)},
                               {"out_rows", counting(21)}});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_LT(largest_difference(out[0].tensor.as<float>(), decoder_logits(toy.load(), tokens)), 1e-4);
}

TEST(FunctionalForm, section11_SequencesOfAStepDoNotSeeEachOther) {
  Graph graph;
  Builder b(graph);
  const Value positions = b.input("positions", Shape({5}, DType::i32));
  graph.set_outputs({{"mask", causal_mask(b, positions)}, {"recent", causal_mask(b, positions, 2)}});
  const std::vector<std::int32_t> two = {0, 1, 2, 0, 1};  // a sequence of three rows, one of two
  const std::vector<NamedTensor> inputs = {{"positions", Tensor::from({5}, std::span<const std::int32_t>(two))}};
  const auto masks = Interpreter(graph).run(inputs);
  const auto text = [&](const Tensor& t) {
    std::string s;
    for (const std::uint8_t v : t.as<std::uint8_t>()) s += v != 0 ? '1' : '.';
    return s;
  };
  EXPECT_EQ(text(masks[0].tensor), "1....11...111.....1....11");
  EXPECT_EQ(text(masks[1].tensor), "1....11....11.....1....11");
}

LoraTuneOptions tuning() {
  LoraTuneOptions o;
  o.steps = 12;
  o.tokens = 16;
  o.rank = 4;
  o.learning_rate = 1e-2f;
  o.threads = 1;
  return o;
}

// The frozen weights are in blocks of 4 bits; the factors learn all the same, and the saved adapter beside the model
// gives the loss that tuning ended with.
TEST(LoraTune, section12_LowersTheLossAndCanBeSavedAndRun) {
  const ToyModel toy(DType::q4_1, kSmall);
  const LoadedModel model = toy.load();
  const std::vector<std::int32_t> text = some_tokens(33);
  LoraTuneOptions options = tuning();
  options.compile.precision.activations = Activations::f32;
  int steps = 0;
  options.progress = [&](std::int64_t step, double) { EXPECT_EQ(step, ++steps); };
  const LoraTuneResult r = tune_lora(model, text, options);
  EXPECT_EQ(steps, 12);
  EXPECT_LT(r.loss_after, 0.8 * r.loss_before);
  ASSERT_EQ(r.adapter.factors.size(), 14u);  // seven products of two layers
  EXPECT_EQ(r.adapter.factors[0].module, "model.layers.0.self_attn.q_proj");

  const fs::path path = fs::temp_directory_path() / fmt::format("rlx_lora_{}.safetensors", getpid());
  r.adapter.write(path);
  LoadedModel adapted = toy.load();
  apply_lora(adapted, LoraAdapter::read(path));
  fs::remove(path);
  const std::span<const std::int32_t> window(text.data(), 16);
  const std::vector<float> logits = decoder_logits(std::move(adapted), window);
  double loss = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    const float* row = logits.data() + i * 96;
    double sum = 0;
    for (int k = 0; k < 96; ++k) sum += std::exp(double{row[k]});
    loss += (std::log(sum) - double{row[text[i + 1]]}) / 16;
  }
  EXPECT_NEAR(loss, r.loss_after, 0.2 * r.loss_after);  // of one of the two windows
  EXPECT_LT(loss, 0.8 * r.loss_before);
}

TEST(LoraTune, section12_RowsOfPairedHeadsAreExchangedBothWays) {
  const LoraTarget target{"blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj", 8, 8, 4};
  Tensor b = Tensor::zeros({8, 1});
  for (std::size_t i = 0; i < 8; ++i) b.mutable_as<float>()[i] = static_cast<float>(i);
  const Tensor model = lora_rows_to_model(target, b);
  // Two heads of four: halves (0 1)(2 3) become pairs (0 2)(1 3).
  EXPECT_EQ(model.to_floats(), (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(lora_rows_to_hub(target, model).to_floats(), b.to_floats());
}

TEST(LoraTune, section12_MistakesAreNamed) {
  const ToyModel toy(DType::f32, kSmall);
  const LoadedModel model = toy.load();
  LoraTuneOptions options = tuning();
  const std::vector<std::int32_t> one = {1}, foreign = {1, 96};
  EXPECT_EQ(test::error_text([&] { tune_lora(model, one, options); }),
            "tune: expected a text of at least two tokens, found 1");
  EXPECT_EQ(test::error_text([&] { tune_lora(model, foreign, options); }),
            "tune: expected tokens from 0 to 95, found 96");
  options.products = {"gat"};
  EXPECT_EQ(test::error_text([&] { tune_lora(model, some_tokens(9), options); }),
            "lora: expected products among q, k, v, o, gate, up, down, found \"gat\": did you mean \"gate\"?");
  LoadedModel adapted = toy.load();
  const LoraAdapter other{1, 1.0f, {{"model.layers.7.mlp.up_proj", Tensor::zeros({1, 64}), Tensor::zeros({96, 1})}}};
  EXPECT_NE(test::error_text([&] {
              apply_lora(adapted, other);
            }).find("has factors of model.layers.7.mlp.up_proj, which the"),
            std::string::npos);
  const LoraAdapter wide{1, 1.0f, {{"model.layers.0.mlp.up_proj", Tensor::zeros({1, 64}), Tensor::zeros({97, 1})}}};
  EXPECT_NE(test::error_text([&] { apply_lora(adapted, wide); }).find("expected factors f32[1, 64] and f32[96, 1]"),
            std::string::npos);
}

}  // namespace
}  // namespace rlx
