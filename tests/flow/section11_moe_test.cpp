// The block of experts with shared ones, in each layout of its tensors.
#include <gtest/gtest.h>

#include "base/error.h"
#include "flow/blocks/moe.h"
#include "flow/weight_sources.h"
#include "ops/interpret.h"

namespace rlx {
namespace {

// Two experts of one lane over one hidden value: expert e gives relu(x g) * (x u) * d.
MoeSpec small_spec() {
  MoeSpec s;
  s.hidden = s.inner = 1;
  s.experts = 2;
  s.act = Act::relu;
  s.route = {.k = 2, .scoring = Scoring::softmax_selected};
  s.router = "router";
  s.gate.name = "gate.{}";
  s.up.name = "up.{}";
  s.down.name = "down";
  return s;
}

WeightMap small_weights() {
  WeightMap w("small");
  w.add("router", {2, 1}, {0, 0});  // each expert weighs 1/2
  w.add("gate.0", {1, 1}, {1});
  w.add("gate.1", {1, 1}, {2});
  w.add("up.0", {1, 1}, {3});
  w.add("up.1", {1, 1}, {4});
  w.add("down", {2, 1, 1}, {5, 6});
  return w;
}

float run_block(const MoeSpec& spec, const WeightMap& weights, float x) {
  ModelFlow flow("moe");
  flow.input("x", Shape({1, 1}, DType::f32))
      .stage("x", [](FlowCtx& ctx, FlowState& s) { s.hidden.set(s.inputs.need(ctx, "x")); })
      .stage("mlp", moe_mlp(spec))
      .output("y");
  const BuiltModel m = flow.build(weights);
  std::vector<NamedTensor> values = {{"x", Tensor::from({1, 1}, std::span<const float>(&x, 1))}};
  for (const ModelParam& p : m.params) {
    std::vector<float> data;
    for (const WeightRef& w : p.stored()) {
      const auto* from = reinterpret_cast<const float*>(w.data.data());
      data.insert(data.end(), from, from + w.data.size() / sizeof(float));
    }
    values.push_back({p.name, Tensor::from(p.weight.shape, std::span<const float>(data))});
  }
  return Interpreter(m.graph).run(values)[0].tensor.to_floats()[0];
}

constexpr float kRouted = 0.5f * (2 * 6 * 5) + 0.5f * (4 * 8 * 6);  // x = 2

TEST(section11_MoeBlock, SumsTheExpertsByWeight) {
  EXPECT_FLOAT_EQ(run_block(small_spec(), small_weights(), 2), kRouted);
}

TEST(section11_MoeBlock, GateAndUpMayShareTheRowsOfATensor) {
  WeightMap w = small_weights();
  w.add("gate_up", {2, 2, 1}, {1, 3, 2, 4});
  MoeSpec s = small_spec();
  s.gate = {"gate_up", 2, 0};
  s.up = {"gate_up", 2, 1};
  EXPECT_FLOAT_EQ(run_block(s, w, 2), kRouted);
}

TEST(section11_MoeBlock, SharedExpertsSeeEveryRowAndMayHaveAGate) {
  WeightMap w = small_weights();
  w.add("sg", {1, 1}, {1});
  w.add("su", {1, 1}, {1});
  w.add("sd", {1, 1}, {10});
  w.add("scale", {1, 1}, {0});
  w.add("scale_vector", {1}, {0});
  MoeSpec s = small_spec();
  s.shared_inner = 1;
  s.shared_gate = "sg", s.shared_up = "su", s.shared_down = "sd";
  EXPECT_FLOAT_EQ(run_block(s, w, 2), kRouted + 40);
  for (const char* router : {"scale", "scale_vector"}) {  // GGUF files store a vector
    s.shared_router = router;
    EXPECT_FLOAT_EQ(run_block(s, w, 2), kRouted + 0.5f * 40) << router;
  }
}

TEST(section11_MoeBlock, AMissingExpertIsListed) {
  WeightMap w("few");
  w.add("router", {2, 1}, {0, 0});
  w.add("gate.0", {1, 1}, {1});
  w.add("gate.1", {1, 2}, {2, 2});
  w.add("up.0", {1, 1}, {3});
  w.add("down", {2, 1, 1}, {5, 6});
  try {
    run_block(small_spec(), w, 2);
    FAIL() << "built";
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("gate.1: expected [1, 1], found f32[1, 2]"), std::string::npos) << text;
    EXPECT_NE(text.find("up.1: expected [1, 1], missing"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace rlx
