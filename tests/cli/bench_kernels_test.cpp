// `rlx bench kernels`: the rows that it takes and the form of what it prints. Factors are a matter of the machine.
#include <nlohmann/json.hpp>

#include "cli/process.h"

namespace rlx::cli {
namespace {

TEST(BenchKernels, OneObjectForEachRowOfTheOps) {
  const Outcome r = rlx({"bench", "kernels", "--op", "softcap,relative_bias", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const nlohmann::json rows = nlohmann::json::parse(r.out);
  ASSERT_GE(rows.size(), 2u);
  for (const auto& row : rows) {
    EXPECT_EQ(row.size(), 5u);
    EXPECT_TRUE(row["kernel"].get<std::string>().starts_with("softcap") ||
                row["kernel"].get<std::string>().starts_with("relative_bias"))
        << row;
    EXPECT_GT(row["factor"].get<double>(), 0);
    EXPECT_EQ(row["reason"].is_null(), row["factor"].get<double>() >= 2) << row;
    EXPECT_TRUE(row["sample"].get<std::string>().starts_with("f32[")) << row;
  }
  EXPECT_EQ(rows.back()["isa"], "baseline");
}

TEST(BenchKernels, ForcedLevelLeavesHigherRowsOut) {
  const Outcome r =
      run_words({program(), "bench", "kernels", "--op", "softcap", "--json"}, "", {"RLX_ISA=baseline"});
  ASSERT_EQ(r.code, 0) << r.err;
  const nlohmann::json rows = nlohmann::json::parse(r.out);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["isa"], "baseline");
}

TEST(BenchKernels, AnUnknownOpIsNamed) {
  const Outcome r = rlx({"bench", "kernels", "--op", "softcup"});
  EXPECT_EQ(r.code, 2);
  const std::string message = "no kernel of this machine is for an op \"softcup\": did you mean \"softcap\"?";
  EXPECT_NE(r.err.find(message), std::string::npos) << r.err;
}

}  // namespace
}  // namespace rlx::cli
