// Families without attention: their boundaries, what their configs may say, and messages.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "error_text.h"
#include "ir/source.h"
#include "models/hub_config.h"
#include "models/load.h"
#include "models/toy.h"

namespace rlx {
namespace {


LoadedModel golden_mamba(const char* name) {
  return load_model(std::filesystem::path(RLX_TEST_DIR) / "goldens/models" / name);
}

std::set<std::string> states_of(const LoadedModel& m) {
  std::set<std::string> states;
  for (const Node& n : m.model.graph.nodes())
    if (n.is<State>()) states.insert(n.name);
  return states;
}

TEST(Mamba, HasRecurrentStatesAndNoPages) {
  const LoadedModel one = golden_mamba("mamba"), two = golden_mamba("mamba2");
  EXPECT_EQ(states_of(one), (std::set<std::string>{"conv_x.0", "conv_x.1", "ssm.0", "ssm.1"}));
  EXPECT_EQ(states_of(two), (std::set<std::string>{"conv_x.0", "conv_b.0", "conv_c.0", "ssm.0", "conv_x.1",
                                                   "conv_b.1", "conv_c.1", "ssm.1"}));
  const Graph& g = two.model.graph;
  EXPECT_EQ(g.shape(g.find_source("ssm.1")), Shape::recurrent_state({8, 16, 16}));
  EXPECT_EQ(g.shape(g.find_source("conv_b.0")), Shape::recurrent_state({3, 32}));
  for (const LoadedModel* m : {&one, &two}) {
    EXPECT_TRUE(m->model.unused.empty());
    EXPECT_EQ(m->config.heads, 0);
    EXPECT_EQ(m->config.context, 1 << 20) << "these models have no longest context of their own";
  }
  EXPECT_TRUE(std::isinf(two.config.ssm.dt_max));
}

TEST(HubConfig, NumbersMayBeInfiniteAsPythonWritesThem) {
  const HubConfig c = HubConfig::from_text(
      R"({"limit": [0.0, Infinity], "low": -Infinity, "none": NaN, "new": {"__float__": "Infinity"},
          "word": "NaN \"Infinity"})",
      "config.json");
  EXPECT_TRUE(std::isinf((*c.numbers("limit"))[1]));
  EXPECT_EQ(*c.number("low"), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(*c.number("none")));
  EXPECT_TRUE(std::isinf(*c.number("new")));
  EXPECT_EQ(*c.text("word"), "NaN \"Infinity");
  const std::string bad = test::error_text([&] { static_cast<void>(c.integer("new")); });
  EXPECT_NE(bad.find("new: expected an integer"), std::string::npos) << bad;
}

// The toy's metadata under the name of a recurrent family.
toy::Spec mamba2_spec() {
  toy::Spec s;
  s.metadata = {{"general.architecture", toy::text("mamba2")},
                {"mamba2.block_count", toy::u32(1)},
                {"mamba2.context_length", toy::u32(64)},
                {"mamba2.embedding_length", toy::u32(16)},
                {"mamba2.attention.layer_norm_rms_epsilon", toy::f32(1e-5)},
                {"mamba2.ssm.conv_kernel", toy::u32(4)},
                {"mamba2.ssm.inner_size", toy::u32(32)},
                {"mamba2.ssm.state_size", toy::u32(4)},
                {"mamba2.ssm.time_step_rank", toy::u32(4)},
                {"mamba2.ssm.group_count", toy::u32(2)}};
  s.tensors = {{"token_embd.weight", {16, 16}},     {"output_norm.weight", {16}},
               {"blk.0.attn_norm.weight", {16}},    {"blk.0.ssm_in.weight", {84, 16}},
               {"blk.0.ssm_conv1d.weight", {48, 4}}, {"blk.0.ssm_conv1d.bias", {48}},
               {"blk.0.ssm_dt.bias", {4}},          {"blk.0.ssm_a", {4, 1}},
               {"blk.0.ssm_d", {4, 1}},             {"blk.0.ssm_norm.weight", {2, 16}},
               {"blk.0.ssm_out.weight", {16, 32}}};
  return s;
}

TEST(Mamba, BadSizesAreNamedWithTheirKey) {
  EXPECT_EQ(test::error_text([] { toy::load(mamba2_spec()); }), "no error");
  const auto with = [](const std::string& key, std::int64_t value) {
    toy::Spec s = mamba2_spec();
    s.metadata[key] = toy::u32(value);
    return test::error_text([&] { toy::load(s); });
  };
  const auto expect = [](const std::string& text, std::string_view part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(with("mamba2.ssm.time_step_rank", 5),
         "mamba2.ssm.time_step_rank: expected a divisor of the 32 inner lanes, found 5");
  expect(with("mamba2.ssm.time_step_rank", 0), "found 0");
  expect(with("mamba2.ssm.group_count", 3), "mamba2.ssm.group_count: expected a divisor of the 4 heads, found 3");
  expect(with("mamba2.ssm.conv_kernel", 1), "mamba2.ssm.conv_kernel: expected 2 to 84, found 1");
  expect(with("mamba2.ssm.state_size", 1 << 30), "mamba2.ssm.state_size: expected 1 to 84, found 1073741824");
  expect(with("mamba2.ssm.state_size", 5), "blk.0.ssm_in.weight: expected [88, 16]");
  toy::Spec missing = mamba2_spec();
  missing.tensors.erase("blk.0.ssm_a");
  missing.tensors.erase("blk.0.ssm_conv1d.weight");
  const std::string text = test::error_text([&] { toy::load(missing); });
  expect(text, "blk.0.ssm_a: expected [4], missing");
  expect(text, "blk.0.ssm_conv1d.weight: expected [48, 4], missing");
}

}  // namespace
}  // namespace rlx
