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

// A family with experts under every form of its products: kernels, bodies, the reference; one and two workers; prompts
// in small pieces.
TEST(VerifyGolden, section12_ExpertsInEveryForm) {
  struct Form {
    std::string_view device;
    DispatchPolicy policy;
    int threads;
    std::int64_t chunk;
  };
  const Form forms[] = {{"cpu", DispatchPolicy::prefer_native, 1, 512},
                        {"cpu", DispatchPolicy::prefer_native, 2, 3},
                        {"cpu", DispatchPolicy::force_common, 2, 512},
                        {"reference", DispatchPolicy::prefer_native, 2, 512}};
  for (const Form& form : forms) {
    GoldenOptions options;
    options.decoder.device = Device::parse(form.device);
    options.decoder.threads = form.threads;
    options.decoder.chunk = form.chunk;
    options.decoder.compile.dispatch.policy = form.policy;
    const GoldenResult r = verify_golden(models() / "qwen3_moe", options);
    EXPECT_TRUE(r.ok) << form.device << ": " << r.diff << " " << r.why;
    // The body of a router is made of ops that run as their reference.
    if (form.device == "cpu" && form.policy == DispatchPolicy::prefer_native) {
      EXPECT_EQ(r.reference, 0) << "every op has a kernel";
    }
  }
}

}  // namespace
}  // namespace rlx
