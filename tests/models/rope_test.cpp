// RoPE tables against numbers computed by hand (N07) and the limits of each scaling.
#include "models/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace rlx {
namespace {

constexpr std::int64_t kRotary = 16;

RopeTable table(const RopeConfig& c, std::int64_t context = 256, std::int64_t session = 256) {
  return rope_table(c, kRotary, context, session);
}

RopeConfig yarn(double factor) {
  RopeConfig c;
  c.scaling = RopeScaling::yarn;
  c.factor = factor;
  c.original_context = 32;
  return c;
}

TEST(Rope, FrequenciesFallFromOneByThePowersOfTheBase) {
  const RopeTable t = table({});
  ASSERT_EQ(t.inv_freq.size(), 8u);
  EXPECT_EQ(t.inv_freq[0], 1.0f);
  EXPECT_FLOAT_EQ(t.inv_freq[1], 0.31622776f);
  EXPECT_FLOAT_EQ(t.inv_freq[2], 0.1f);
  EXPECT_FLOAT_EQ(t.inv_freq[4], 0.01f);
  EXPECT_EQ(t.magnitude, 1.0f);
}

TEST(Rope, LinearDividesEveryFrequency) {
  RopeConfig c;
  c.scaling = RopeScaling::linear;
  c.factor = 4.0;
  const RopeTable plain = table({}), scaled = table(c);
  for (std::size_t i = 0; i < plain.inv_freq.size(); ++i)
    EXPECT_EQ(scaled.inv_freq[i], plain.inv_freq[i] / 4.0f);
}

TEST(Rope, YarnMagnitudeHasTwoForms) {
  EXPECT_NEAR(table(yarn(40.0)).magnitude, 1.36889, 1e-5);
  RopeConfig c = yarn(40.0);
  c.attention_factor = 1.0;
  EXPECT_EQ(table(c).magnitude, 1.0f) << "an explicit factor wins";
  c = yarn(40.0);
  c.mscale = c.mscale_all_dim = 0.707;
  EXPECT_EQ(table(c).magnitude, 1.0f) << "equal terms cancel";
  c.mscale = 1.0;
  EXPECT_NEAR(table(c).magnitude, 1.36889 / 1.26081, 1e-5);
  c.mscale_all_dim = 0.0;
  EXPECT_NEAR(table(c).magnitude, 1.36889, 1e-5) << "one term alone is not used";
  EXPECT_EQ(table(yarn(1.0)).magnitude, 1.0f);
}

// The lane that turns r times in 32 tokens is 16 ln(32 / (2 pi r)) / (2 ln 10000): -1.6 for r = 32,
// so the ramp starts at 0, and 1.41 for r = 1, so it ends at 2.
TEST(Rope, YarnRampsFromTheFastLanesToTheSlowOnes) {
  const RopeTable plain = table({}), t = table(yarn(4.0));
  EXPECT_FLOAT_EQ(t.inv_freq[0], plain.inv_freq[0]);
  EXPECT_FLOAT_EQ(t.inv_freq[1], plain.inv_freq[1] * (0.5f + 0.5f / 4.0f));
  for (std::size_t i = 2; i < 8; ++i) EXPECT_FLOAT_EQ(t.inv_freq[i], plain.inv_freq[i] / 4.0f);
}

TEST(Rope, YarnWithoutTruncationKeepsTheFractionOfTheRamp) {
  RopeConfig c = yarn(4.0);
  c.truncate = false;
  const double end = 16.0 * std::log(32.0 / (2.0 * M_PI)) / (2.0 * std::log(10000.0));
  const RopeTable plain = table({}), t = table(c);
  const double ramp = 1.0 / end;
  EXPECT_NEAR(t.inv_freq[1], plain.inv_freq[1] * (1.0 - ramp + ramp / 4.0), 1e-6);
}

// Wavelengths 2 pi / f; 32 tokens, low 1, high 4: below 8 kept, above 32 divided by 8, between a
// blend.
TEST(Rope, Llama3ScalesByWavelength) {
  RopeConfig c;
  c.scaling = RopeScaling::llama3;
  c.factor = 8.0;
  c.original_context = 32;
  const RopeTable plain = table({}), t = table(c);
  EXPECT_EQ(t.inv_freq[0], plain.inv_freq[0]);
  const double f = plain.inv_freq[1], smooth = (32.0 * f / (2.0 * M_PI) - 1.0) / 3.0;
  EXPECT_NEAR(t.inv_freq[1], (1.0 - smooth) * f / 8.0 + smooth * f, 1e-7);
  for (std::size_t i = 2; i < 8; ++i) EXPECT_FLOAT_EQ(t.inv_freq[i], plain.inv_freq[i] / 8.0f);
}

TEST(Rope, DynamicStretchesTheBaseForSessionsAboveTheContextOnly) {
  RopeConfig c;
  c.scaling = RopeScaling::dynamic;
  c.factor = 2.0;
  EXPECT_EQ(table(c, 256, 256).inv_freq, table({}).inv_freq);
  EXPECT_EQ(table(c, 256, 8).inv_freq, table({}).inv_freq);
  RopeConfig stretched;
  stretched.base = 10000.0 * std::pow(2.0 * 512.0 / 256.0 - 1.0, 16.0 / 14.0);
  EXPECT_EQ(table(c, 256, 512).inv_freq, table(stretched).inv_freq);
}

TEST(Rope, LongropeTakesTheFactorsOfTheSession) {
  RopeConfig c;
  c.scaling = RopeScaling::longrope;
  c.original_context = 64;
  c.factor = 4.0;
  c.short_factor.assign(8, 1.0f);
  c.long_factor.assign(8, 2.0f);
  const RopeTable plain = table({});
  EXPECT_EQ(table(c, 256, 64).inv_freq, plain.inv_freq);
  const RopeTable t = table(c, 256, 65);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(t.inv_freq[i], plain.inv_freq[i] / 2.0f);
  EXPECT_NEAR(t.magnitude, std::sqrt(1.0 + std::log(4.0) / std::log(64.0)), 1e-6);
  c.attention_factor = 1.5;
  EXPECT_EQ(table(c, 256, 65).magnitude, 1.5f);
}

TEST(Rope, DivisorsOfTheFileDivide) {
  const std::vector<float> divisors = {1, 1, 1, 1, 8, 8, 8, 8};
  const RopeTable plain = table({}), t = rope_table({}, kRotary, 256, 256, divisors);
  EXPECT_EQ(t.inv_freq[3], plain.inv_freq[3]);
  EXPECT_EQ(t.inv_freq[4], plain.inv_freq[4] / 8.0f);
}

}  // namespace
}  // namespace rlx
