// rlx trace on the demo model: the whole way from a text to a file that a trace viewer reads.
#include <nlohmann/json.hpp>

#include "cli/process.h"

namespace rlx::cli {
namespace {

TEST(DemoTrace, WritesPromptAndTokens) {
  const Outcome where = run_words({"/bin/bash", std::string(RLX_SOURCE_DIR "/scripts/demo-model.sh"), "path"});
  const std::string model = last_line(where.out);
  if (!fs::exists(model)) GTEST_SKIP() << "the demo model is not at " << model;
  const Scratch scratch;
  const std::string file = (scratch / "trace.json").string();
  const Outcome r = rlx({"trace", model, "-p", "Once upon a time", "-n", "3", "-t", "2", "-o", file});
  ASSERT_EQ(r.code, 0) << r.err;
  const nlohmann::json events = nlohmann::json::parse(content(file))["traceEvents"];
  std::int64_t steps = 0, products = 0;
  for (const nlohmann::json& e : events) {
    steps += e["ph"] == "X" && e["cat"] == "step" ? 1 : 0;
    const bool call = e["ph"] == "X" && e["cat"] == "call";
    // "linear", or a fused form of it where fused kernels are allowed.
    products += call && e["args"]["op"].get<std::string>().ends_with("linear") ? 1 : 0;
  }
  EXPECT_EQ(steps, 2 * 3) << "the prompt and two more steps, on two workers";
  EXPECT_GT(products, steps);
  EXPECT_EQ(rlx({"trace", model, "-p", "x"}).code, 2);
}

}  // namespace
}  // namespace rlx::cli
