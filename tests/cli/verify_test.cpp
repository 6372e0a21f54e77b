// rlx verify on tiny models of the reference.
#include <nlohmann/json.hpp>

#include "cli/process.h"

namespace rlx::cli {
namespace {

using nlohmann::json;

TEST(Verify, GoldenPasses) {
  const Outcome r = rlx({"verify", golden_model("llama"), "--json"});
  ASSERT_EQ(r.code, 0) << r.err << r.out;
  const json j = json::parse(r.out);
  ASSERT_EQ(j.size(), 1u);
  EXPECT_EQ(j[0]["name"], "llama");
  EXPECT_LE(j[0]["diff"].get<double>(), j[0]["tolerance"].get<double>());
  EXPECT_TRUE(j[0]["ok"].get<bool>());
  EXPECT_EQ(j[0]["kernels"]["reference"], 0);
}

TEST(Verify, OneChangedWeightFails) {
  const Scratch scratch;
  fs::copy(golden_model("llama"), scratch / "llama");
  fs::permissions(scratch / "llama/model.safetensors", fs::perms::owner_write,
                  fs::perm_options::add);
  // The last two bytes are the high end of a weight in f16: 32 instead of something near 0.
  std::fstream file(scratch / "llama/model.safetensors",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-2, std::ios::end);
  file.write("\x00\x50", 2);
  file.close();
  const Outcome r = rlx({"verify", (scratch / "llama").string()});
  EXPECT_EQ(r.code, 1) << r.out << r.err;
  EXPECT_NE(r.out.find("FAIL"), std::string::npos) << r.out;
}

TEST(Verify, ToleranceDecides) {
  EXPECT_EQ(rlx({"verify", golden_model("llama"), "--tolerance", "0"}).code, 1);
}

TEST(Verify, ThreadsChangeNothing) {
  const Outcome one = rlx({"verify", golden_model("llama"), "--threads", "1", "--json"});
  const Outcome two = rlx({"verify", golden_model("llama"), "--threads", "2", "--json"});
  EXPECT_EQ(one.out, two.out);
  EXPECT_EQ(one.code, 0);
}

TEST(Verify, WithoutFusionAndOnTheReferenceDevice) {
  EXPECT_EQ(rlx({"verify", golden_model("llama"), "--no-fusion"}).code, 0);
  EXPECT_EQ(rlx({"verify", golden_model("llama"), "--device", "reference"}).code, 0);
}

// The baseline runs on a processor without AVX.
TEST(Verify, OnAnOldProcessor) {
  if (std::string(RLX_TEST_SANITIZE) != "") GTEST_SKIP() << "sanitizers do not run under qemu";
  if (!fs::exists("/usr/bin/qemu-x86_64")) GTEST_SKIP() << "qemu-x86_64 is not installed";
  const Outcome r = run_words({"/usr/bin/qemu-x86_64", "-cpu", "Nehalem", program(), "verify",
                               golden_model("llama"), "--threads", "1"},
                              "", {"-u", "RLX_ISA"});
  EXPECT_EQ(r.code, 0) << r.err << r.out;
}

}  // namespace
}  // namespace rlx::cli
