// Section 11 of the design of the compiler: the blocks of encoders as stages: what they emit, and what they say when an
// earlier stage is missing or a tensor has another shape.
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "error_text.h"
#include "flow/blocks/encoder_attention.h"
#include "flow/blocks/layer_norm.h"
#include "flow/blocks/linear.h"
#include "flow/blocks/mlp.h"
#include "flow/blocks/patch_embedding.h"
#include "flow/blocks/pooling.h"
#include "flow/blocks/position_embedding.h"
#include "flow/blocks/relative_bias.h"
#include "flow/blocks/streams.h"
#include "flow/weight_sources.h"
#include "ops/interpret.h"
#include "ops/matmul.h"
#include "ops/reduction.h"

namespace rlx::encoder_block_tests {
namespace {

/// Weights of a layer with hidden size 2; matrices are [[1, 0], [0, 1]].
WeightMap weights() {
  WeightMap w("toy");
  for (const char* name : {"wq", "wk", "wv", "wo", "up", "down"}) w.add(name, {2, 2}, {1, 0, 0, 1});
  for (const char* name : {"ones", "gain"}) w.add(name, {2}, {1, 1});
  w.add("shift", {2}, {0.5f, -0.5f});
  w.add("table", {3, 2}, {0, 0, 10, 20, 30, 40});
  w.add("buckets", {4, 2}, {0, 0, 1, 1, 2, 2, 3, 3});
  return w;
}

/// A flow over the input "x" f32[rows, 2] with sequences and a list of positions.
ModelFlow flow_of(const std::function<void(ModelFlow&)>& stages) {
  ModelFlow flow("toy");
  flow.input("x", Shape({sym::rows, 2}, DType::f32))
      .input("positions", Shape({sym::rows}, DType::i32))
      .input("seq_start", Shape({Dim(sym::batch) + Dim(1)}, DType::i32))
      .stage("x", input_stream("x"))
      .stage("x", use_stream("x"));
  stages(flow);
  flow.output("y");
  return flow;
}

std::vector<float> run(const std::function<void(ModelFlow&)>& stages, std::int64_t batch = 1) {
  const WeightMap w = weights();
  const BuiltModel model = flow_of(stages).build(w);
  std::vector<NamedTensor> values = {{"x", Tensor::from({2, 2}, std::vector<float>{1, 3, -2, 2})},
                                     {"positions", Tensor::from({2}, std::vector<std::int32_t>{1, 2})},
                                     {"seq_start", batch == 1 ? Tensor::from({2}, std::vector<std::int32_t>{0, 2})
                                                              : Tensor::from({3}, std::vector<std::int32_t>{0, 1, 2})}};
  for (const ModelParam& p : model.params)
    values.push_back({p.name, Tensor::borrow(p.weight.shape, p.weight.dtype, p.weight.data)});
  return Interpreter(bind(model.graph, {{sym::rows, 2}, {sym::batch, batch}})).run(values)[0].tensor.to_floats();
}

EncoderAttentionSpec attention() {
  EncoderAttentionSpec s;
  s.hidden = 2;
  s.heads = s.kv_heads = 2;
  s.head_dim = 1;
  s.scale = 0.0f;
  s.wq = "wq";
  s.wk = "wk";
  s.wv = "wv";
  s.wo = "wo";
  return s;
}

TEST(section11_encoder_blocks, AttentionMixesTheRowsOfASequence) {
  const auto stages = [](ModelFlow& f) { f.stage("attention", encoder_attention(attention())); };
  EXPECT_EQ(run(stages), (std::vector<float>{-0.5f, 2.5f, -0.5f, 2.5f}));
  EXPECT_EQ(run(stages, 2), (std::vector<float>{1, 3, -2, 2})) << "two sequences of one row";
}

TEST(section11_encoder_blocks, PositionsAreAdded) {
  EXPECT_EQ(
      run([](ModelFlow& f) { f.stage("positions", position_embedding({.weight = "table", .count = 3, .hidden = 2})); }),
      (std::vector<float>{11, 23, 28, 42}));
}

TEST(section11_encoder_blocks, LayerNormPoolingAndProducts) {
  const auto norm = [](ModelFlow& f) {
    f.stage("norm", layer_norm({.weight = "ones", .bias = "shift", .size = 2, .eps = 1e-12f}));
  };
  EXPECT_EQ(run(norm), (std::vector<float>{-0.5f, 0.5f, -0.5f, 0.5f}));
  EXPECT_EQ(run([](ModelFlow& f) { f.stage("pool", pool_hidden({.kind = SequencePooling::mean, .hidden = 2})); }),
            (std::vector<float>{-0.5f, 2.5f}));
  PlainMlpSpec mlp;
  mlp.hidden = mlp.inner = 2;
  mlp.act = Act::relu;
  mlp.up = "up";
  mlp.down = "down";
  mlp.down_bias = "shift";
  EXPECT_EQ(run([&](ModelFlow& f) { f.stage("mlp", plain_mlp(mlp)).stage("scale", scale_hidden(2.0f)); }),
            (std::vector<float>{3, 5, 1, 3}));
}

TEST(section11_encoder_blocks, CrossAttentionReadsAStream) {
  EncoderAttentionSpec cross = attention();
  cross.source = "memory";
  cross.source_starts = "seq_start";
  EXPECT_EQ(run([&](ModelFlow& f) {
              f.stage("positions", position_embedding({.weight = "table", .count = 3, .hidden = 2}))
                  .stage("memory", save_stream("memory"))
                  .stage("x", use_stream("x"))
                  .stage("attention", encoder_attention(cross));
            }),
            (std::vector<float>{19.5f, 32.5f, 19.5f, 32.5f}));
}

TEST(section11_encoder_blocks, AMissingStageIsNamedWithTheOneThatNeedsIt) {
  const WeightMap w = weights();
  const auto built = [&](const std::function<void(ModelFlow&)>& stages) {
    return test::error_text([&] { flow_of(stages).build(w); });
  };
  EncoderAttentionSpec cross = attention();
  cross.source = "memory";
  cross.source_starts = "seq_start";
  EXPECT_EQ(
      built([&](ModelFlow& f) { f.stage("cross", encoder_attention(cross)); }),
      "the stage \"cross\" needs the stream \"memory\", which the stage \"save_stream\" gives: none stands before it");
  EncoderAttentionSpec biased = attention();
  biased.position_bias = "bias";
  EXPECT_NE(built([&](ModelFlow& f) {
              f.stage("attention", encoder_attention(biased));
            }).find("the stage \"attention\" needs the node \"bias\""),
            std::string::npos);
  EXPECT_NE(built([](ModelFlow& f) { f.stage("patches", patch_embedding({})); }).find("needs the input \"pixels\""),
            std::string::npos);
  EXPECT_NE(built([](ModelFlow& f) {
              f.stage("head", linear({.weight = {}, .bias = {}, .in = 2, .out = 3}));
            }).find("the stage \"head\" needs the embedding weight"),
            std::string::npos);
}

TEST(section11_encoder_blocks, TensorsOfAnotherShapeAreReportedTogether) {
  const WeightMap w = weights();
  const std::string text = test::error_text([&] {
    flow_of([](ModelFlow& f) {
      f.stage("bias", relative_bias({.weight = "buckets", .buckets = 8, .heads = 2, .max_distance = 16}))
          .stage("norm", layer_norm({.weight = "ones", .bias = "none", .size = 2}));
    }).build(w);
  });
  EXPECT_NE(text.find("buckets: expected [8, 2], found f32[4, 2]"), std::string::npos) << text;
  EXPECT_NE(text.find("none: expected [2], missing"), std::string::npos) << text;
}

TEST(section11_encoder_blocks, APatchIsFlattenedAsAConvolutionReadsIt) {
  // One channel, an image of 2 x 4 pixels, patches of 2 x 2; the kernel's first output picks a pixel, the second sums.
  WeightMap w("toy");
  w.add("kernel", {2, 1, 2, 2}, {0, 1, 0, 0, 1, 1, 1, 1});
  w.add("token", {1, 1, 2}, {-1, -2});
  w.add("positions", {1, 3, 2}, {100, 0, 200, 0, 300, 0});
  PatchEmbeddingSpec s;
  s.weight = "kernel";
  s.class_token = "token";
  s.positions = "positions";
  s.hidden = 2;
  s.channels = 1;
  s.height = s.patch_height = s.patch_width = 2;
  s.width = 4;
  ModelFlow flow("toy");
  flow.input("pixels", Shape({sym::batch, 1, 2, 4}, DType::f32)).stage("patches", patch_embedding(s)).output("y");
  const BuiltModel model = flow.build(w);
  std::vector<NamedTensor> values = {
      {"pixels", Tensor::from({1, 1, 2, 4}, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8})}};
  for (const ModelParam& p : model.params)
    values.push_back({p.name, Tensor::borrow(p.weight.shape, p.weight.dtype, p.weight.data)});
  const Tensor y = Interpreter(bind(model.graph, {{sym::batch, 1}})).run(values)[0].tensor;
  EXPECT_EQ(y.to_floats(), (std::vector<float>{99, -2, 202, 14, 304, 22}));
}

}  // namespace
}  // namespace rlx::encoder_block_tests
