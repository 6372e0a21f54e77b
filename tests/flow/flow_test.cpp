// How models are written: stages, slots, params, and what a flow says when something is missing.
#include "flow/flow.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "error_text.h"
#include "flow/blocks/embedding.h"
#include "flow/blocks/lm_head.h"
#include "flow/blocks/mlp.h"
#include "flow/blocks/norm.h"
#include "flow/blocks/residual.h"
#include "flow/weight_sources.h"
#include "ops/block.h"
#include "ops/elementwise.h"

namespace rlx {
namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// A model of two sizes: 4 tokens of vocabulary, 2 hidden.
WeightMap toy_weights() {
  WeightMap w("toy");
  w.add("table", {4, 2}, std::vector<float>(8, 1.0f));
  w.add("norm", {2}, {1.0f, 1.0f});
  w.add("w", {3, 2}, {1, 2, 3, 4, 5, 6});
  return w;
}

ModelFlow toy_flow() {
  ModelFlow flow("toy");
  flow.input("tokens", Shape({sym::rows}, DType::i32))
      .input("out_rows", Shape({sym::out_rows}, DType::i32))
      .stage("embed_tokens", token_embedding({.weight = "table", .vocab = 4, .hidden = 2}))
      .repeat_layers(2,
                     [](ModelFlow& layer, std::int64_t) {
                       layer.stage("residual_save", residual_save())
                           .stage("norm", rms_norm({.weight = "norm", .size = 2}))
                           .stage("residual_add", residual_add());
                     })
      .stage("lm_head", lm_head({.norm = "norm", .weight = {}, .vocab = 4, .hidden = 2}))
      .output("logits");
  return flow;
}

TEST(Flow, BuildsAGraphWhoseNodesKnowTheirStage) {
  const WeightMap weights = toy_weights();
  const BuiltModel m = toy_flow().build(weights);
  ASSERT_EQ(m.graph.outputs().size(), 1u);
  EXPECT_EQ(m.graph.outputs()[0].name, "logits");
  EXPECT_EQ(m.graph.shape(m.graph.outputs()[0].value), Shape({sym::out_rows, Dim(4)}, DType::f32));
  EXPECT_EQ(m.graph.node(m.graph.outputs()[0].value).origin, "lm_head");
  int norms = 0;
  for (const Node& n : m.graph.nodes()) norms += n.origin == "layers.1.norm";
  EXPECT_EQ(norms, 1) << "the weight was declared by layer 0";
  EXPECT_EQ(m.info.architecture, "toy");
  EXPECT_EQ(m.info.parameters, 4 * 2 + 2);
  EXPECT_EQ(m.info.weight_bytes, 40);
  EXPECT_EQ(m.unused, std::vector<std::string>{"w"});
}

TEST(Flow, ParamsReferToTheStoredBytes) {
  const WeightMap weights = toy_weights();
  const BuiltModel m = toy_flow().build(weights);
  ASSERT_EQ(m.params.size(), 2u) << "the tied table once";
  for (const ModelParam& p : m.params) {
    EXPECT_EQ(p.weight.data.data(), weights.find(p.name)->data.data());
    EXPECT_TRUE(m.graph.find_source(p.name));
  }
}

TEST(Flow, OneTensorBothWaysIsTwoNodesOverOneStore) {
  const WeightMap weights = toy_weights();
  FlowCtx ctx("toy", weights);
  const Value plain = ctx.load_param("w", false), turned = ctx.load_param("w", true);
  EXPECT_EQ(ctx.load_param("w", false), plain);
  EXPECT_EQ(ctx.load_param("w", true), turned);
  EXPECT_FALSE(plain == turned);
  EXPECT_EQ(ctx.node_shape(plain), Shape({3, 2}, DType::f32));
  EXPECT_EQ(ctx.node_shape(turned), Shape({2, 3}, DType::f32));
  const BuiltModel m = ctx.finish({});
  ASSERT_EQ(m.params.size(), 2u);
  EXPECT_EQ(m.params[0].weight.data.data(), m.params[1].weight.data.data());
  EXPECT_NE(m.params[0].name, m.params[1].name);
  EXPECT_TRUE(m.params[1].transposed);
  EXPECT_EQ(m.info.parameters, 6) << "one stored tensor";
}

TEST(Flow, StagesThatReadATensorWithOtherDimsAreNamed) {
  const WeightMap weights = toy_weights();
  FlowCtx ctx("toy", weights);
  ctx.set_stage("second");
  const Value rows = ctx.load_rows("w", 3, 2, {0, 1});
  EXPECT_EQ(ctx.load_rows("w", 3, 2, {0, 1}), rows);
  EXPECT_TRUE(contains(test::error_text([&] { ctx.load_rows("w", 3, 4, {0, 1}); }),
                       "w[0:1]: one stage reads it as [1, 2], second as [1, 4]"));
  ctx.load_matrix("w", 3, 2);
  EXPECT_TRUE(contains(test::error_text([&] { ctx.load_matrix("w", 2, 3); }), "reads it as [3, 2], second as [2, 3]"));
  ctx.load_vector("norm", 2);
  EXPECT_TRUE(contains(test::error_text([&] { ctx.load_vector("norm", 3); }), "reads it as [2], second as [3]"));
}

TEST(Flow, SynthesisedParamsBringTheirData) {
  const WeightMap weights("empty");
  FlowCtx ctx("toy", weights);
  ctx.synth_param("freq", {1.0f, 0.5f}, Shape({2}, DType::f32));
  ctx.synth_zeros("beta", 3);
  EXPECT_TRUE(contains(test::error_text([&] { ctx.synth_zeros("beta", 3); }), "beta"));
  EXPECT_TRUE(
      contains(test::error_text([&] { ctx.synth_param("x", {1.0f}, Shape({2}, DType::f32)); }), "1 values"));
  const BuiltModel m = ctx.finish({});
  ASSERT_EQ(m.params.size(), 2u);
  EXPECT_EQ((*m.params[0].owned)[1], 0.5f);
  EXPECT_EQ(m.params[1].weight.data.size(), 12u);
}

TEST(Flow, VectorsOfOtherDtypesAreWidenedMatricesAreNot) {
  const std::uint16_t halves[] = {0x3f80, 0x4000};  // bf16: 1, 2
  WeightMap weights("halves");
  weights.add(WeightRef{"v", DType::bf16, {2}, std::as_bytes(std::span(halves)), nullptr});
  weights.add(WeightRef{"m", DType::bf16, {1, 2}, std::as_bytes(std::span(halves)), nullptr});
  FlowCtx ctx("toy", weights);
  EXPECT_EQ(ctx.node_shape(ctx.load_vector("v", 2)), Shape({2}, DType::f32));
  EXPECT_EQ(ctx.node_shape(ctx.load_matrix("m", 1, 2)), Shape({1, 2}, DType::bf16));
  const BuiltModel m = ctx.finish({});
  EXPECT_EQ(*m.params[0].owned, (std::vector<float>{1.0f, 2.0f}));
  EXPECT_EQ(m.params[1].owned, nullptr);
  EXPECT_EQ(m.info.weight_bytes, 8) << "as stored";
}

TEST(Flow, WhenAddsStagesOnItsConditionOnly) {
  const WeightMap weights = toy_weights();
  for (const bool on : {false, true}) {
    ModelFlow flow("toy");
    flow.input("tokens", Shape({sym::rows}, DType::i32))
        .stage("embed_tokens", token_embedding({.weight = "table", .vocab = 4, .hidden = 2}))
        .when(on, [](ModelFlow& f) { f.stage("norm", rms_norm({.weight = "norm", .size = 2})); })
        .output("hidden");
    EXPECT_EQ(static_cast<bool>(flow.build(weights).graph.find_source("norm")), on);
  }
}

TEST(Flow, CustomStagesHaveThePowersOfBlocks) {
  const WeightMap weights = toy_weights();
  ModelFlow flow("toy");
  flow.input("tokens", Shape({sym::rows}, DType::i32))
      .stage("embed_tokens", token_embedding({.weight = "table", .vocab = 4, .hidden = 2}))
      .stage("twice",
             [](FlowCtx& ctx, FlowState& state) {
               state.hidden.set(ctx.hir()(Scale{.factor = 2.0f}, state.hidden.need(ctx)));
             })
      .output("hidden");
  const BuiltModel m = flow.build(weights);
  EXPECT_EQ(m.graph.node(m.graph.outputs()[0].value).as<Scale>()->factor, 2.0f);
}

struct Incomplete {
  std::string_view name, stage, missing, provider;
  void (*add)(ModelFlow&);
};

TEST(Flow, AStageThatLacksAnEarlierOneNamesBoth) {
  const Incomplete cases[] = {
      {"no embedding", "norm", "hidden state", "token_embedding",
       [](ModelFlow& f) { f.stage("norm", rms_norm({.weight = "norm", .size = 2})); }},
      {"no residual", "layers.0.add", "residual", "residual_save",
       [](ModelFlow& f) {
         f.repeat_layers(1, [](ModelFlow& l, std::int64_t) { l.stage("add", residual_add()); });
       }},
      {"no input", "embed", "\"tokens\"", "input",
       [](ModelFlow& f) {
         f.stage("embed", token_embedding({.weight = "table", .vocab = 4, .hidden = 2}));
       }},
      {"no value", "output", "hidden state", "token_embedding",
       [](ModelFlow& f) { f.output("logits"); }},
  };
  const WeightMap weights = toy_weights();
  for (const Incomplete& c : cases) {
    ModelFlow flow("toy");
    c.add(flow);
    const std::string text = test::error_text([&] { flow.build(weights); });
    for (const std::string_view part : {c.stage, c.missing, c.provider})
      EXPECT_TRUE(contains(text, part)) << c.name << ": " << text;
  }
  EXPECT_TRUE(contains(test::error_text([&] { ModelFlow("bare").build(weights); }), "no output"));
}

TEST(Flow, MissingAndMisshapenTensorsComeInOneMessage) {
  WeightMap weights("toy.gguf");
  weights.add("table", {4, 3}, std::vector<float>(12));
  const std::string text = test::error_text([&] { toy_flow().build(weights); });
  EXPECT_TRUE(contains(text, "toy.gguf: 2 tensors")) << text;
  EXPECT_TRUE(contains(text, "table: expected [4, 2], found f32[4, 3]")) << text;
  EXPECT_TRUE(contains(text, "norm: expected [2], missing")) << text;
}

TEST(Flow, TenTensorsAreListedAndTheRestCounted) {
  const WeightMap weights("toy");
  FlowCtx ctx("toy", weights);
  for (int i = 0; i < 13; ++i) ctx.load_matrix(fmt::format("w{}", i), 2, 2);
  const std::string text = test::error_text([&] { ctx.finish({}); });
  EXPECT_TRUE(contains(text, "w9: expected [2, 2], missing")) << text;
  EXPECT_FALSE(contains(text, "w10")) << text;
  EXPECT_TRUE(contains(text, "and 3 more")) << text;
}

TEST(Flow, BlocksHaveNoTransposedReading) {
  const std::vector<std::byte> block(18 * 2);
  WeightMap weights("toy");
  weights.add(WeightRef{"q", DType::q4_0, {2, 32}, block, nullptr});
  FlowCtx ctx("toy", weights);
  EXPECT_TRUE(contains(test::error_text([&] { ctx.load_param("q", true); }), "q4_0[2, 32]"));
}

TEST(WeightMap, ChecksBytesAndNames) {
  WeightMap w("toy");
  w.add("a", {2}, {1, 2});
  EXPECT_TRUE(contains(test::error_text([&] { w.add("a", {1}, {1}); }), "\"a\" occurs twice"));
  EXPECT_TRUE(contains(test::error_text([&] { w.add("b", {3}, {1, 2}); }), "expected 12 bytes, found 8"));
  EXPECT_EQ(w.find("c"), nullptr);
  EXPECT_EQ(w.names(), std::vector<std::string>{"a"});
}

TEST(Flow, AGatedMlpWithBiasesIsMadeOfProducts) {
  WeightMap w("toy");
  w.add("table", {4, 2}, std::vector<float>(8));
  for (const char* name : {"gate", "up"}) w.add(name, {3, 2}, std::vector<float>(6));
  w.add("down", {2, 3}, std::vector<float>(6));
  for (const char* name : {"gate.b", "up.b"}) w.add(name, {3}, std::vector<float>(3));
  w.add("down.b", {2}, std::vector<float>(2));
  ModelFlow flow("toy");
  flow.input("tokens", Shape({sym::rows}, DType::i32))
      .stage("embed", token_embedding({.weight = "table", .vocab = 4, .hidden = 2}))
      .stage("mlp", gated_mlp({.hidden = 2,
                               .inner = 3,
                               .act = Act::silu,
                               .gate = "gate",
                               .up = "up",
                               .down = "down",
                               .gate_bias = "gate.b",
                               .up_bias = "up.b",
                               .down_bias = "down.b"}))
      .output("hidden");
  const BuiltModel m = flow.build(w);
  EXPECT_EQ(m.graph.shape(m.graph.outputs()[0].value), Shape({sym::rows, Dim(2)}, DType::f32));
  for (const Node& n : m.graph.nodes()) EXPECT_FALSE(n.is<GatedMlp>());
}

}  // namespace
}  // namespace rlx
