// The planner against the independent checker, on random live ranges, and the checker against plans
// that are wrong.
#include "compiler/memory_plan.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"

namespace rlx {
namespace {

std::vector<LiveBuffer> random_buffers(std::mt19937& random, int count) {
  std::vector<LiveBuffer> buffers;
  for (int i = 0; i < count; ++i) {
    const auto first = static_cast<std::int32_t>(random() % 40);
    buffers.push_back({static_cast<std::int64_t>(random() % 5000), first,
                       first + static_cast<std::int32_t>(random() % 6)});
  }
  return buffers;
}

TEST(MemoryPlan, NeverOverlapsOnRandomLiveRanges) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const auto buffers = random_buffers(random, 1 + static_cast<int>(random() % 60));
    const Placement p = place_buffers(buffers);
    EXPECT_NO_THROW(check_placement(buffers, p));
    EXPECT_GE(p.arena_bytes, lower_bound(buffers));
  }
}

TEST(MemoryPlan, AChainReusesTwoBuffers) {
  std::vector<LiveBuffer> chain;
  for (std::int32_t i = 0; i < 100; ++i) chain.push_back({4096, i, i + 1});
  EXPECT_EQ(place_buffers(chain).arena_bytes, 2 * 4096);
  EXPECT_EQ(lower_bound(chain), 2 * 4096);
}

TEST(MemoryPlan, TheCheckerSeesAnOverlap) {
  const std::vector<LiveBuffer> buffers = {{100, 0, 3}, {100, 3, 4}};
  Placement p = place_buffers(buffers);
  p.offsets[1] = p.offsets[0];
  EXPECT_THROW(check_placement(buffers, p), InternalError);
}

TEST(MemoryPlan, TheCheckerSeesABufferOutsideTheArena) {
  const std::vector<LiveBuffer> buffers = {{100, 0, 3}};
  Placement p = place_buffers(buffers);
  p.arena_bytes = 64;
  EXPECT_THROW(check_placement(buffers, p), InternalError);
}

}  // namespace
}  // namespace rlx
