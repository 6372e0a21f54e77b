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

// A layer of a state-space model: placed by size alone, the small buffers split the place that two large ones need.
TEST(MemoryPlan, ASearchReachesTheBoundWhereNoOrderDoes) {
  constexpr std::int64_t k = 1024;
  const std::vector<LiveBuffer> layer = {
      {16 * k, 0, 12},  {16 * k, 1, 9},   {32 * k, 2, 11},  {32 * k, 3, 4},   {32 * k, 4, 10}, {8 * k, 5, 6},
      {8 * k, 6, 10},   {8 * k, 7, 8},    {8 * k, 8, 10},   {2 * k, 9, 10},   {32 * k, 10, 11}, {32 * k, 11, 12},
      {16 * k, 12, 26}, {16 * k, 13, 22}, {16 * k, 14, 15}, {32 * k, 15, 25}, {32 * k, 16, 17}, {32 * k, 17, 23},
      {8 * k, 18, 19},  {8 * k, 19, 23},  {8 * k, 20, 21},  {8 * k, 21, 23},  {2 * k, 22, 23}, {32 * k, 23, 24},
      {32 * k, 24, 25}, {32 * k, 25, 27}, {16 * k, 26, 27}, {16 * k, 27, 28}, {40 * k, 28, 29}};
  const Placement p = place_buffers(layer);
  EXPECT_NO_THROW(check_placement(layer, p));
  EXPECT_EQ(p.arena_bytes, lower_bound(layer));
  EXPECT_EQ(place_buffers(layer).offsets, p.offsets) << "equal buffers get equal places";
}

TEST(MemoryPlan, WhatLiesAtTheBottomStaysThereInItsOrder) {
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    auto buffers = random_buffers(random, 40);
    for (const std::size_t i : {std::size_t{7}, std::size_t{3}}) buffers[i] = {1000, 0, 50};
    const std::vector<std::size_t> bottom = {7, 3};
    const Placement p = place_buffers(buffers, bottom);
    EXPECT_NO_THROW(check_placement(buffers, p));
    EXPECT_EQ(p.offsets[7], 0);
    EXPECT_EQ(p.offsets[3], 1024);
  }
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
