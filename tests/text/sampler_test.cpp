#include "text/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>

namespace rlx {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Everything off but the draw.
SamplerOptions plain(int64_t seed = 1) {
  return {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = seed};
}

std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> out;
  for (const double p : probabilities) out.push_back(static_cast<float>(std::log(p)));
  return out;
}

std::map<int32_t, int> draws(Sampler& s, const std::vector<float>& logits, int n) {
  std::map<int32_t, int> counts;
  for (int i = 0; i < n; ++i) ++counts[s.sample(logits, {})];
  return counts;
}

TEST(Sampler, GreedyTakesTheBestAndOfTiesTheLowerId) {
  SamplerOptions o = plain();
  o.temperature = 0;
  Sampler s(o);
  EXPECT_EQ(s.sample(std::vector<float>{1, 5, 3}, {}), 1);
  EXPECT_EQ(s.sample(std::vector<float>{1, 3, 3, 3}, {}), 1);
  EXPECT_EQ(s.sample(std::vector<float>{-kInf, -2, -kInf}, {}), 1);
}

TEST(Sampler, DrawsFollowTheDistribution) {
  const std::vector<double> p = {0.4, 0.05, 0.25, 0.1, 0.2};
  Sampler s(plain(42));
  const int n = 100000;
  auto counts = draws(s, logits_of(p), n);
  double chi = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double expected = p[i] * n, d = counts[static_cast<int32_t>(i)] - expected;
    chi += d * d / expected;
  }
  EXPECT_LT(chi, 18.47);  // 4 degrees of freedom, 0.1 %
}

TEST(Sampler, TemperatureSharpens) {
  SamplerOptions o = plain(3);
  o.temperature = 0.5f;
  Sampler s(o);
  const int n = 50000;
  auto counts = draws(s, logits_of({0.75, 0.25}), n);
  EXPECT_NEAR(counts[0] / double(n), 0.9, 0.01);  // 9 : 1 after squaring
}

TEST(Sampler, TopKKeepsTheBestAndOfTiesTheLowerIds) {
  SamplerOptions o = plain();
  o.top_k = 2;
  Sampler s(o);
  const auto counts = draws(s, {1, 2, 2, 2, 0}, 500);
  EXPECT_EQ(counts.size(), 2u);
  EXPECT_TRUE(counts.contains(1) && counts.contains(2));
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesIt) {
  const auto kept = [](float p) {
    SamplerOptions o = plain();
    o.top_p = p;
    Sampler s(o);
    // Exact in binary: probabilities 1/2, 1/4, 1/8, 1/8.
    return draws(s, logits_of({0.125, 0.5, 0.125, 0.25}), 2000).size();
  };
  EXPECT_EQ(kept(0.0f), 1u);  // at least one
  EXPECT_EQ(kept(0.49f), 1u);
  EXPECT_EQ(kept(0.51f), 2u);
  EXPECT_EQ(kept(0.74f), 2u);
  EXPECT_EQ(kept(0.8f), 3u);
  EXPECT_EQ(kept(0.99f), 4u);
  EXPECT_EQ(kept(1.0f), 4u);
}

TEST(Sampler, TopPAgreesWithAFullSortOnALargeVocabulary) {
  std::vector<float> logits(3000);
  for (size_t i = 0; i < logits.size(); ++i)
    logits[i] = static_cast<float>((i * 7919) % 3001) * 1e-3f;
  std::vector<double> sorted(logits.begin(), logits.end());
  std::sort(sorted.rbegin(), sorted.rend());
  double total = 0, sum = 0;
  for (const double l : sorted) total += std::exp(l - sorted[0]);
  double threshold = sorted[0];
  for (const double l : sorted) {
    sum += std::exp(l - sorted[0]);
    threshold = l;
    if (sum >= 0.7f * total) break;
  }
  SamplerOptions o = plain(9);
  o.top_p = 0.7f;
  Sampler s(o);
  float lowest = kInf;
  for (int i = 0; i < 2000; ++i)
    lowest = std::min(lowest, logits[static_cast<size_t>(s.sample(logits, {}))]);
  EXPECT_GE(lowest, threshold);
  EXPECT_LT(lowest, threshold + 0.05);
}

TEST(Sampler, MinPDropsWhatIsFarBelowTheBest) {
  SamplerOptions o = plain();
  o.min_p = 0.3f;
  Sampler s(o);
  const auto counts = draws(s, logits_of({0.5, 0.2, 0.1, 0.2}), 2000);
  EXPECT_EQ(counts.size(), 3u);
  EXPECT_FALSE(counts.contains(2));
}

TEST(Sampler, PenaltiesLookAtTheLastTokens) {
  SamplerOptions o = plain();
  o.temperature = 0;
  o.repeat_penalty = 2;
  o.repeat_last_n = 2;
  Sampler repeat(o);
  const std::vector<float> logits = {4, 3, 1, -1};
  EXPECT_EQ(repeat.sample(logits, std::vector<int32_t>{0}), 1);
  EXPECT_EQ(repeat.sample(logits, std::vector<int32_t>{0, 2, 2}), 0);     // out of the window
  EXPECT_EQ(repeat.sample(logits, std::vector<int32_t>{0, 0, 0, 0}), 1);  // once, however often
  EXPECT_EQ(repeat.sample(logits, std::vector<int32_t>{-5, 99}), 0);      // foreign ids do nothing
  EXPECT_EQ(repeat.sample(std::vector<float>{-1, -1.5f}, std::vector<int32_t>{0}),
            1);  // negative logits go down

  o.repeat_penalty = 1;
  o.repeat_last_n = -1;
  o.frequency_penalty = 0.6f;
  EXPECT_EQ(Sampler(o).sample(logits, std::vector<int32_t>{0}), 0);
  EXPECT_EQ(Sampler(o).sample(logits, std::vector<int32_t>{0, 0}), 1);
  o.frequency_penalty = 0;
  o.presence_penalty = 1.5f;
  EXPECT_EQ(Sampler(o).sample(logits, std::vector<int32_t>{0, 0, 0}), 1);
}

TEST(Sampler, EqualSeedsGiveEqualTokens) {
  std::vector<float> logits(1000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = std::sin(static_cast<float>(i));
  Sampler a({.seed = 7}), b({.seed = 7}), c({.seed = 8});
  std::vector<int32_t> x, y, z;
  for (int i = 0; i < 100; ++i) {
    x.push_back(a.sample(logits, x));
    y.push_back(b.sample(logits, y));
    z.push_back(c.sample(logits, z));
  }
  EXPECT_EQ(x, y);
  EXPECT_NE(x, z);
  a.reset();
  std::vector<int32_t> again;
  for (int i = 0; i < 100; ++i) again.push_back(a.sample(logits, again));
  EXPECT_EQ(again, x);
  EXPECT_NE(Sampler({.seed = -1}).seed(), Sampler({.seed = -1}).seed());
}

TEST(Sampler, N19_RandomStateMoves) {
  const std::vector<float> uniform(1000, 0.0f);
  Sampler s(plain(5));
  const int n = 10000;
  std::vector<int32_t> ids;
  for (int i = 0; i < n; ++i) ids.push_back(s.sample(uniform, {}));
  // Runs above and below the middle: mean n/2 + 1, variance about n/4.
  int runs = 1;
  for (int i = 1; i < n; ++i)
    runs += (ids[static_cast<size_t>(i)] < 500) != (ids[static_cast<size_t>(i - 1)] < 500);
  EXPECT_NEAR(runs, n / 2 + 1, 4 * std::sqrt(n / 4.0));
}

TEST(Sampler, N02_NonFiniteLogitsAreAnError) {
  Sampler s(plain());
  const auto message = [&](std::vector<float> logits) -> std::string {
    try {
      s.sample(logits, {});
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(message({1, NAN, 2}), "sampler: logit 1 of 3 is NaN");
  EXPECT_EQ(message({1, 2, kInf}), "sampler: logit 2 of 3 is +inf");
  EXPECT_EQ(message({-kInf, -kInf}), "sampler: all 2 logits are -inf");
  EXPECT_EQ(message({}), "sampler: expected logits, found none");
  EXPECT_EQ(message({-kInf, 0}), "");
}

TEST(Sampler, OptionsAreCheckedByName) {
  const auto message = [](SamplerOptions o) -> std::string {
    try {
      validate(o);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(message({.temperature = -1}), "temperature: expected a number from 0 to 100, found -1");
  EXPECT_EQ(message({.top_p = 1.5f}), "top_p: expected a number from 0 to 1, found 1.5");
  EXPECT_EQ(message({.min_p = NAN}), "min_p: expected a number from 0 to 1, found nan");
  EXPECT_EQ(message({.repeat_penalty = 0}),
            "repeat_penalty: expected a number above 0, at most 100, found 0");
  EXPECT_EQ(message({.presence_penalty = 3}),
            "presence_penalty: expected a number from -2 to 2, found 3");
  EXPECT_EQ(message({.seed = -2}), "seed: expected -1 (random) or more, found -2");
}

}  // namespace
}  // namespace rlx
