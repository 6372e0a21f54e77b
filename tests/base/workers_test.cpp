// The team of threads and its phases, also with more threads than cores.
#include "base/workers.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/cpu_features.h"
#include "base/error.h"

namespace rlx {
namespace {

TEST(Workers, EveryShareOfEveryJobIsDoneOnce) {
  Workers workers(5);
  std::vector<int> counts(5, 0);
  for (int job = 0; job < 200; ++job)
    workers.run([&](int t) noexcept { ++counts[static_cast<std::size_t>(t)]; });
  EXPECT_EQ(counts, std::vector<int>(5, 200));
}

TEST(Workers, APhaseBeginsWhenAllSharesOfTheOneBeforeAreDone) {
  Workers workers(7);
  std::atomic<int> sum{0};
  std::atomic<bool> right{true};
  workers.run_phases([&](int, int, std::int64_t place) noexcept -> std::int64_t {
    const int round = static_cast<int>(place);
    if (sum.load() < 7 * round || sum.load() >= 7 * (round + 1)) right = false;
    sum.fetch_add(1);
    return round < 299 ? place + 1 : Workers::kEnd;
  });
  EXPECT_TRUE(right);
  EXPECT_EQ(sum, 2100);
}

TEST(Workers, PhasesMayJump) {
  for (const int threads : {1, 3}) {
    Workers workers(threads);
    std::vector<std::int64_t> places;
    workers.run_phases([&](int share, int, std::int64_t place) noexcept -> std::int64_t {
      if (share == 0) places.push_back(place);
      return place == 0 ? 7 : place == 7 ? 3 : Workers::kEnd;
    });
    EXPECT_EQ(places, (std::vector<std::int64_t>{0, 7, 3})) << threads;
  }
}

TEST(Workers, SharesOfThreadsThatHaveNoCoreAreDoneByOthers) {
  // Far more threads than cores: they cannot all come in time.
  Workers workers(64);
  std::vector<int> counts(64, 0), others(64, 0);
  for (int job = 0; job < 50; ++job)
    workers.run_phases([&](int share, int worker, std::int64_t place) noexcept -> std::int64_t {
      const auto s = static_cast<std::size_t>(share);
      ++counts[s];
      others[s] += share != worker ? 1 : 0;
      return place < 9 ? place + 1 : Workers::kEnd;
    });
  EXPECT_EQ(counts, std::vector<int>(64, 500));
  if (cpu_limits().logical < 32) {
    EXPECT_GT(std::accumulate(others.begin(), others.end(), 0), 0);
  }
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
