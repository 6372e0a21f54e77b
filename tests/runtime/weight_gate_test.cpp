// Whoever waits for a weight goes on when it arrives, and when nobody will fill it any more.
#include "runtime/weight_gate.h"

#include <gtest/gtest.h>

#include <array>
#include <future>

namespace rlx {
namespace {

TEST(WeightGate, OpensForEachEntryAlone) {
  const std::array<std::byte, 2> entries{};
  WeightGate gate;
  EXPECT_TRUE(gate.wait(&entries[0])) << "nobody expects it: it is there";
  gate.expect(&entries[0]);
  gate.expect(&entries[1]);
  auto waiting = std::async(std::launch::async, [&] { return gate.wait(&entries[0]); });
  gate.arrived(&entries[0]);
  EXPECT_TRUE(waiting.get());
  EXPECT_TRUE(gate.pending());
  gate.arrived(&entries[1], "the disk is gone");
  EXPECT_FALSE(gate.wait(&entries[1]));
  EXPECT_EQ(gate.failure(), "the disk is gone");
  EXPECT_FALSE(gate.pending());
}

TEST(WeightGate, GivingUpWakesWhoWaits) {
  const std::array<std::byte, 2> entries{};
  WeightGate gate;
  gate.expect(&entries[0]);
  gate.expect(&entries[1]);
  gate.arrived(&entries[0]);
  auto waiting = std::async(std::launch::async, [&] { return gate.wait(&entries[1]); });
  auto all = std::async(std::launch::async, [&] { gate.wait_all(); });
  gate.give_up("no memory");
  EXPECT_FALSE(waiting.get());
  all.get();
  EXPECT_TRUE(gate.wait(&entries[0])) << "what has arrived stays";
  EXPECT_EQ(gate.failure(), "no memory");
}

}  // namespace
}  // namespace rlx
