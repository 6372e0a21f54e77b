// scripts/bench-check against programs that only print llama-bench's JSON: what it stores, what it lets pass, what it
// refuses.
#include <cstdlib>

#include "cli/process.h"

namespace rlx::cli {
namespace {

// A folder of peers with one model, a llama-bench of 100 and 50 tokens a second, and an rlx of other speeds.
class Peers {
 public:
  Peers() {
    fs::create_directories(root_ / "llama.cpp/build/bin");
    fs::create_directories(root_ / "models");
    root_.file("models/smollm2-135m-instruct-q4_1.gguf", "");
    program("llama.cpp/build/bin/llama-bench", 100, 50);
  }
  void program(const std::string& name, double prompt, double generation) const {
    const std::string json = "[{\"n_prompt\": 512, \"n_gen\": 0, \"avg_ts\": " + std::to_string(prompt) +
                             "}, {\"n_prompt\": 0, \"n_gen\": 64, \"avg_ts\": " + std::to_string(generation) + "}]";
    fs::permissions(root_.file(name, "#!/bin/sh\necho '" + json + "'\n"), fs::perms::owner_all);
  }
  Outcome check(double prompt, double generation, const std::vector<std::string>& flags = {}) const {
    program("rlx", prompt, generation);
    std::vector<std::string> words = {RLX_SOURCE_DIR "/scripts/bench-check", "--rounds", "1", "--rlx",
                                      (root_ / "rlx").string(), "--ratios", ratios().string()};
    words.insert(words.end(), flags.begin(), flags.end());
    return run_words(words, "", {"PEERS=" + (root_ / "").string()});
  }
  fs::path ratios() const { return root_ / "results/ratios.json"; }

 private:
  Scratch root_;
};

bool no_python() { return std::system("python3 -c '' >/dev/null 2>&1") != 0; }

TEST(BenchCheck, FailsWhereARatioFellByATenth) {
  if (no_python()) GTEST_SKIP() << "python3 is not there";
  const Peers peers;
  const Outcome none = peers.check(200, 75);
  EXPECT_EQ(none.code, 0) << none.err;
  EXPECT_NE(none.out.find("has no ratios of this processor"), std::string::npos) << none.out;
  EXPECT_FALSE(fs::exists(peers.ratios()));
  EXPECT_EQ(peers.check(200, 75, {"--update"}).code, 0);
  EXPECT_NE(content(peers.ratios()).find("\"smollm2-135m-q4_1 pp512\": 2.0"), std::string::npos);
  EXPECT_EQ(peers.check(182, 75).code, 0) << "9 % below";
  const Outcome slower = peers.check(200, 67);
  EXPECT_EQ(slower.code, 1);
  EXPECT_NE(slower.err.find("more than 10% below the stored ratio: smollm2-135m-q4_1 tg64\n"), std::string::npos)
      << slower.err;
  EXPECT_NE(content(peers.ratios()).find("tg64\": 1.5"), std::string::npos) << "a comparison stores nothing";
}

TEST(BenchCheck, SaysWhyItComparedNothing) {
  if (no_python()) GTEST_SKIP() << "python3 is not there";
  const Outcome r = run_words({RLX_SOURCE_DIR "/scripts/bench-check"}, "", {"PEERS=/nowhere"});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.out, "scripts/bench-check: nothing was compared: /nowhere/llama.cpp/build/bin/llama-bench is not there; "
                   "build llama.cpp below $PEERS\n");
  EXPECT_EQ(run_words({RLX_SOURCE_DIR "/scripts/bench-check", "--rounds", "0"}).code, 2);
}

}  // namespace
}  // namespace rlx::cli
