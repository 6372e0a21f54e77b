// Which processors threads run on.
#include "base/affinity.h"

#include <gtest/gtest.h>
#include <sched.h>

#include "base/cpu_features.h"
#include "base/error.h"
#include "base/workers.h"
#include "error_text.h"

namespace rlx {
namespace {

using test::error_text;

std::vector<int> mask_here() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> processors;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) processors.push_back(i);
  return processors;
}

/// Leaves the process as it was.
struct Affinity {
  explicit Affinity(std::vector<int> processors) { set_affinity(std::move(processors)); }
  ~Affinity() { set_affinity({}); }
};

TEST(Affinity, ReadsListsAndWords) {
  const std::vector<int> allowed = allowed_processors();
  const std::string first = std::to_string(allowed[0]);
  EXPECT_EQ(parse_affinity("x", ""), std::vector<int>());
  EXPECT_EQ(parse_affinity("x", "none"), std::vector<int>());
  EXPECT_EQ(parse_affinity("x", "cores").size(), static_cast<std::size_t>(cpu_limits().physical));
  EXPECT_EQ(parse_affinity("x", first), std::vector<int>{allowed[0]});
  EXPECT_EQ(parse_affinity("x", first + "-" + first), std::vector<int>{allowed[0]});
  if (allowed.size() < 2) GTEST_SKIP() << "lists of two need two processors";
  const std::string second = std::to_string(allowed[1]);
  EXPECT_EQ(parse_affinity("x", second + "," + first), (std::vector<int>{allowed[1], allowed[0]}));  // as given
}

TEST(Affinity, SaysWhatIsWrongWithAList) {
  for (const std::string text : {"a", "0,", ",0", "0-", "-1", "1-0", "0--1", "0 1", "99999999999", "0.5"})
    EXPECT_EQ(error_text([&] { parse_affinity("--affinity", text); }),
              "--affinity: expected none, cores or processors as 0-3,8, found \"" + text + "\"");
  const std::string first = std::to_string(allowed_processors()[0]);
  EXPECT_NE(error_text([&] { parse_affinity("--affinity", first + "," + first); }).find("each processor once"),
            std::string::npos);
  EXPECT_NE(error_text([&] { parse_affinity("--affinity", "65000"); }).find("this process may use"), std::string::npos);
}

TEST(Affinity, EachThreadOfATeamStaysOnItsProcessor) {
  const std::vector<int> allowed = allowed_processors();
  const Affinity affinity(allowed);
  const int threads = static_cast<int>(allowed.size());
  std::vector<std::vector<int>> masks(static_cast<std::size_t>(threads));
  {
    Workers workers(threads);
    EXPECT_EQ(allowed_processors(), allowed) << "a pinned caller still counts what it may use";
    EXPECT_EQ(cpu_limits().logical, threads);
    for (int job = 0; job < 20; ++job)
      workers.run_phases([&](int, int worker, std::int64_t) noexcept -> std::int64_t {
        masks[static_cast<std::size_t>(worker)] = mask_here();
        return Workers::kEnd;
      });
  }
  EXPECT_EQ(masks[0], std::vector<int>{allowed[0]});
  for (std::size_t t = 1; t < masks.size(); ++t)
    if (!masks[t].empty()) {  // one that came too late did no share
      EXPECT_EQ(masks[t], std::vector<int>{allowed[t]});
    }
  EXPECT_EQ(mask_here(), allowed) << "the caller is as it was";
}

TEST(Affinity, TeamsInsideATeamLeaveTheCallerWhereItWas) {
  const std::vector<int> allowed = allowed_processors();
  const Affinity affinity({allowed[0]});
  {
    Workers outer(1);
    { Workers inner(1); }
    EXPECT_EQ(mask_here(), std::vector<int>{allowed[0]});
    EXPECT_EQ(allowed_processors(), allowed);
  }
  EXPECT_EQ(mask_here(), allowed);
}

TEST(Affinity, MoreThreadsThanProcessorsMakeProgress) {
  const Affinity affinity({allowed_processors()[0]});
  Workers workers(8);
  std::vector<int> counts(8, 0);
  for (int job = 0; job < 30; ++job)
    workers.run([&](int share) noexcept { ++counts[static_cast<std::size_t>(share)]; });
  EXPECT_EQ(counts, std::vector<int>(8, 30));
}

TEST(Affinity, ATeamGoesOnWhenItsProcessorsAreTakenAway) {
  const std::vector<int> allowed = allowed_processors();
  if (allowed.size() < 2) GTEST_SKIP() << "needs two processors";
  Workers workers(2);
  std::vector<int> counts(2, 0);  // one for each share: they run at the same time
  const auto count = [&](int share) noexcept { ++counts[static_cast<std::size_t>(share)]; };
  workers.run(count);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(allowed[1]), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  for (int job = 0; job < 30; ++job) workers.run(count);
  cpu_set_t all;
  CPU_ZERO(&all);
  for (const int p : allowed) CPU_SET(static_cast<std::size_t>(p), &all);
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(counts, std::vector<int>(2, 31));
}

}  // namespace
}  // namespace rlx
