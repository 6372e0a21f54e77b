// Goldens through the decoder, and the search for them.
#include "runtime/verify.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

fs::path models() { return fs::path(RLX_TEST_DIR) / "goldens/models"; }

TEST(VerifyGolden, FindsFoldersInAFolder) {
  const std::vector<fs::path> all = golden_folders(models());
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  EXPECT_NE(std::find(all.begin(), all.end(), models() / "llama"), all.end());
  EXPECT_EQ(golden_folders(models() / "llama").size(), 1u);
  EXPECT_THROW(golden_folders(fs::path(RLX_TEST_DIR) / "none"), Error);
}

TEST(VerifyGolden, EveryFamilyIsWithinItsTolerance) {
  GoldenOptions options;
  options.decoder.threads = 2;
  for (const fs::path& folder : golden_folders(models())) {
    const GoldenResult r = verify_golden(folder, options);
    EXPECT_TRUE(r.ok) << r.name << ": " << r.diff << " " << r.why;
    EXPECT_GT(r.diff, 0) << r.name;  // float32 sums in another order than the reference's
  }
}

}  // namespace
}  // namespace rlx
