// The demo model through the program; skipped where it could not be fetched
// (scripts/demo-model.sh).
#include <nlohmann/json.hpp>

#include "cli/process.h"

namespace rlx::cli {
namespace {

using nlohmann::json;

class DemoModel : public testing::Test {
 protected:
  void SetUp() override {
    const Outcome where =
        run_words({"/bin/bash", std::string(RLX_SOURCE_DIR "/scripts/demo-model.sh"), "path"});
    path = last_line(where.out);
    if (!fs::exists(path)) GTEST_SKIP() << "the demo model is not at " << path;
  }
  std::string path;
};

TEST_F(DemoModel, AnswersTheSameWithOneAndTwoThreads) {
  const auto run = [&](const char* threads) {
    return json::parse(rlx({"run", path, "-p", "The capital of France is", "-n", "12", "--temp",
                            "0", "-t", threads, "--json", "--stats"})
                           .out);
  };
  const json one = run("1"), two = run("2");
  EXPECT_EQ(one["ids"], two["ids"]);
  EXPECT_EQ(one["text"], two["text"]);
  EXPECT_NE(one["text"].get<std::string>().find("Paris"), std::string::npos) << one["text"];
  const json& stats = one["stats"];
  EXPECT_EQ(stats["compiles"], 1);
  EXPECT_EQ(stats["step_allocations"], 0);
  EXPECT_EQ(stats["epilogue_rows"], one["ids"].size());
}

TEST_F(DemoModel, SeedsRepeat) {
  const auto run = [&](const char* seed) {
    return rlx({"run", path, "-p", "Once upon a time", "-n", "16", "--temp", "1", "--seed", seed})
        .out;
  };
  EXPECT_EQ(run("7"), run("7"));
  EXPECT_NE(run("7"), run("8"));
}

TEST_F(DemoModel, InterruptKeepsTheTextSoFar) {
  const Outcome r =
      run_words({"/usr/bin/timeout", "--preserve-status", "-s", "INT", "8", program(), "run", path,
                 "-p", "Once upon a time", "-n", "8000", "--ignore-eos", "--temp", "0"});
  EXPECT_EQ(r.code, 130) << r.err;
  EXPECT_NE(r.out, "");
}

TEST_F(DemoModel, PromptOverTheContext) {
  const Outcome r = rlx({"run", path, "-p", "one two three four five six seven eight", "-c", "4"});
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("the context holds 4"), std::string::npos) << r.err;
}

// Rows of the embedding are read from the mapped file at each step.
TEST_F(DemoModel, AFileThatIsCutWhileInUseIsAnError) {
  if (std::string(RLX_TEST_SANITIZE) != "") GTEST_SKIP() << "the sanitizers take the signal themselves";
  const Scratch scratch;
  const std::string copy = (scratch / "m.gguf").string();
  fs::copy(path, copy);
  const std::string script =
      "\"$0\" run \"$1\" -p x -n 4000 --ignore-eos --temp 0 -t 1 >/dev/null & "
      "sleep 1; truncate -s 1000000 \"$1\"; wait $!";
  const Outcome r = run_words({"/bin/sh", "-c", script, program(), copy});
  EXPECT_EQ(r.code, 3) << r.err;
  EXPECT_NE(last_line(r.err).find("the file was cut"), std::string::npos) << r.err;
}

TEST_F(DemoModel, ContextAboveTheTrainedOneIsSaid) {
  const Outcome r = rlx({"run", path, "-p", "Hello", "-n", "1", "-c", "9000"});
  EXPECT_EQ(r.code, 0);
  EXPECT_NE(r.err.find("-c 9000 is above the 8192 tokens"), std::string::npos) << r.err;
  EXPECT_EQ(rlx({"run", path, "-p", "Hello", "-n", "1", "-c", "8192"}).err.find("warning"), std::string::npos);
}

TEST_F(DemoModel, ChatKeepsTheConversation) {
  const Outcome r = rlx({"chat", path, "--temp", "0", "-n", "24", "--stats"},
                        "My name is Ada.\nWhat is my name?\n/bye\n");
  EXPECT_EQ(r.code, 0) << r.err;
  // What a model of this size says differs between instruction sets; that the second turn builds on the first does not.
  EXPECT_NE(r.out, "");
  EXPECT_NE(r.err.find("of them cached"), std::string::npos) << r.err;
}

// The baseline kernels of the whole path, on a processor without AVX.
TEST_F(DemoModel, RunsOnAnOldProcessor) {
  if (std::string(RLX_TEST_SANITIZE) != "") GTEST_SKIP() << "sanitizers do not run under qemu";
  if (!fs::exists("/usr/bin/qemu-x86_64")) GTEST_SKIP() << "qemu-x86_64 is not installed";
  const Outcome r = run_words({"/usr/bin/qemu-x86_64", "-cpu", "Nehalem", program(), "run", path,
                               "-p", "Hello", "-n", "2", "--temp", "0", "-t", "1"},
                              "", {"-u", "RLX_ISA"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out, "");
}

}  // namespace
}  // namespace rlx::cli
