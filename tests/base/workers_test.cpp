// The team of threads and its barrier, also with more threads than cores.
#include "base/workers.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace rlx {
namespace {

TEST(Workers, EveryThreadRunsEveryJobOnce) {
  Workers workers(5);
  std::vector<int> counts(5, 0);
  for (int job = 0; job < 200; ++job)
    workers.run([&](int t) noexcept { ++counts[static_cast<std::size_t>(t)]; });
  EXPECT_EQ(counts, std::vector<int>(5, 200));
}

TEST(Workers, TheBarrierKeepsThreadsInStepWhenCoresAreFew) {
  Workers workers(7);
  std::atomic<int> sum{0};
  std::atomic<bool> right{true};
  workers.run([&](int) noexcept {
    for (int round = 1; round <= 300; ++round) {
      sum.fetch_add(1);
      workers.barrier().wait();
      if (sum.load() != 7 * round) right = false;
      workers.barrier().wait();
    }
  });
  EXPECT_TRUE(right);
  EXPECT_EQ(sum, 2100);
}

TEST(Workers, OneThreadNeedsNoOther) {
  Workers workers(1);
  int calls = 0;
  workers.run([&](int t) noexcept { calls += 1 + t; });
  EXPECT_EQ(calls, 1);
}

TEST(Workers, RefusesAbsurdCounts) {
  EXPECT_THROW(Workers(0), Error);
  EXPECT_THROW(Workers(1025), Error);
}

}  // namespace
}  // namespace rlx
