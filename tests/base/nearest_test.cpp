// Suggestions for unknown names.
#include "base/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace rlx {
namespace {

TEST(Nearest, TakesTheFewestEditsAndTheFirstOfEquals) {
  const std::vector<std::string> names = {"run", "bench", "verify", "tokenize", "detokenize"};
  EXPECT_EQ(nearest("tokenise", names), "tokenize");
  EXPECT_EQ(nearest("benhc", names), "bench");
  EXPECT_EQ(nearest("ru", names), "run");
  EXPECT_EQ(nearest("verify", names), "verify");
}

TEST(Nearest, SaysNothingWhenNothingIsNear) {
  const std::vector<std::string> names = {"run", "bench"};
  EXPECT_EQ(nearest("quantize", names), "");
  EXPECT_EQ(nearest("x", {}), "");
}

}  // namespace
}  // namespace rlx
