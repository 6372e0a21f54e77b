// LoRA fine-tuning of the demo model through the program; skipped where it could not be fetched
// (scripts/demo-model.sh).
#include <nlohmann/json.hpp>

#include "cli/process.h"

namespace rlx::cli {
namespace {

using nlohmann::json;

// 20 steps of 64 tokens lower the loss on a page of text by a fifth and more, and the adapter runs with the model.
TEST(DemoModelTune, section12_TwentyStepsLowerTheLossAndTheAdapterRuns) {
  const Outcome where =
      run_words({"/bin/bash", std::string(RLX_SOURCE_DIR "/scripts/demo-model.sh"), "path"});
  const std::string path = last_line(where.out);
  if (!fs::exists(path)) GTEST_SKIP() << "the demo model is not at " << path;
  if (std::string(RLX_TEST_SANITIZE) != "")
    GTEST_SKIP() << "minutes under a sanitizer; the toy model of runtime is tuned";
  const Scratch scratch;
  const std::string adapter = (scratch / "adapter.safetensors").string(),
                    text = std::string(RLX_SOURCE_DIR "/docs/one-token.md");
  const Outcome tuned = rlx({"tune", path, "-f", text, "-o", adapter, "--json"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const json result = json::parse(tuned.out);
  EXPECT_EQ(result["losses"].size(), 20u);
  EXPECT_LT(result["loss_after"].get<double>(), 0.8 * result["loss_before"].get<double>());

  const auto answer = [&](bool adapted) {
    std::vector<std::string> words = {"run", path, "-p", "The program of a step", "-n", "12", "--temp", "0"};
    if (adapted) words.insert(words.end(), {"--lora", adapter});
    return rlx(words);
  };
  const Outcome with = answer(true), without = answer(false);
  EXPECT_EQ(with.code, 0) << with.err;
  EXPECT_NE(with.out, without.out);
}

}  // namespace
}  // namespace rlx::cli
