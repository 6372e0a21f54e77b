// The sampling op: the same tokens as the sampler of text/, for every order of its settings; reproducible; and drawn by
// the shares that the logits ask for.
#include "text/sampler.h"

#include <random>

#include "base/philox.h"
#include "ops/sample_op.h"
#include "ops/support.h"

namespace rlx {
namespace {

Tensor random_logits(std::int64_t rows, std::int64_t vocab, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  std::vector<float> values(static_cast<std::size_t>(rows * vocab));
  for (float& v : values) v = std::round(normal(random) * 8) / 8;  // with ties
  return f32({rows, vocab}, values);
}

std::vector<std::int32_t> tokens_of(const SampleToken& op, const std::vector<Tensor>& operands) {
  const Tensor y = run_op(op, operands);
  return {y.as<std::int32_t>().begin(), y.as<std::int32_t>().end()};
}

Tensor seeds_of(std::int64_t rows, std::uint64_t seed) {
  std::vector<std::int32_t> halves;
  for (std::int64_t r = 0; r < rows; ++r) {
    halves.push_back(static_cast<std::int32_t>(seed & 0xffffffff));
    halves.push_back(static_cast<std::int32_t>(seed >> 32));
  }
  return Tensor::from({rows, 2}, std::span<const std::int32_t>(halves));
}

TEST(section12_Sample, PhiloxGivesTheNumbersOfItsPaper) {
  // Known-answer vectors of the authors' Random123 library (kat_vectors, philox4x32 10).
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(section12_Sample, ChoosesTheTokensOfTheTextSampler) {
  const SampleToken forms[] = {{},
                               {.temperature = 0},
                               {.temperature = 1.3f, .top_k = 0, .top_p = 1, .min_p = 0},
                               {.top_k = 5, .top_p = 0.5f, .min_p = 0.3f},
                               {.temperature = 0.2f, .top_k = 0, .top_p = 0.9f}};
  constexpr std::int64_t kRows = 24, kVocab = 900;
  for (const SampleToken& form : forms)
    for (const std::uint64_t seed : {std::uint64_t{7}, std::uint64_t{0x123456789abcdef}}) {
      const Tensor logits = random_logits(kRows, kVocab, static_cast<unsigned>(seed));
      std::vector<std::int32_t> steps, want;
      SamplerOptions o;
      o.temperature = form.temperature, o.top_k = form.top_k, o.top_p = form.top_p;
      o.min_p = form.min_p, o.seed = static_cast<std::int64_t>(seed);
      Sampler sampler(o);
      for (std::int64_t r = 0; r < kRows; ++r) {
        steps.push_back(static_cast<std::int32_t>(r));
        want.push_back(sampler.sample(logits.as<float>().subspan(static_cast<std::size_t>(r * kVocab), kVocab), {}));
      }
      SampleToken op = form;
      op.streams = true;
      EXPECT_EQ(tokens_of(op, {logits, seeds_of(kRows, seed), i32(steps)}), want);
      op.streams = false;
      op.seed = static_cast<std::int64_t>(seed);
      EXPECT_EQ(tokens_of(op, {logits}), want) << "the number of the row is its step";
    }
}

TEST(section12_Sample, ARowDependsOnItsOwnStreamOnly) {
  const Tensor logits = random_logits(4, 300, 3);
  SampleToken op{.temperature = 2, .top_k = 0, .top_p = 1, .min_p = 0, .streams = true};
  const auto all = tokens_of(op, {logits, seeds_of(4, 11), i32({5, 6, 7, 8})});
  const std::vector<float> values = logits.to_floats();
  const Tensor third = f32({1, 300}, {values.begin() + 600, values.begin() + 900});
  EXPECT_EQ(tokens_of(op, {third, seeds_of(1, 11), i32({7})})[0], all[2]);
}

TEST(section12_Sample, DrawsByTheShares) {
  // Shares 1/2, 1/4, 1/8, 1/8.
  constexpr std::int64_t kRows = 8000;
  const float two = std::log(2.0f);
  std::vector<float> values;
  for (std::int64_t r = 0; r < kRows; ++r) values.insert(values.end(), {2 * two, two, 0, 0});
  const SampleToken op{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 5};
  std::array<double, 4> count{};
  for (const std::int32_t t : tokens_of(op, {f32({kRows, 4}, values)})) ++count[static_cast<std::size_t>(t)];
  const double expected[] = {0.5, 0.25, 0.125, 0.125};
  for (std::size_t i = 0; i < 4; ++i)  // four standard deviations
    EXPECT_NEAR(count[i] / kRows, expected[i], 4 * std::sqrt(expected[i] / kRows)) << i;
}

TEST(section12_Sample, ARowThatCannotBeSampledIsMinusOne) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor logits = f32({4, 2}, {1, std::nanf(""), 1, inf, -inf, -inf, -inf, 0});
  EXPECT_EQ(tokens_of({}, {logits}), (std::vector<std::int32_t>{-1, -1, -1, 1}));
}

TEST(section12_Sample, SettingsOutsideTheirRangeAreNamed) {
  EXPECT_EQ(shape_error(SampleToken{.top_p = 1.5f}, {"f32[1, 4]"}).substr(0, 14), "sample: top_p:");
  EXPECT_EQ(shape_error(SampleToken{.streams = true}, {"f32[3, 4]", "i32[3, 2]", "i32[2]"}),
            "sample: steps: expected the rows of logits = 3 values, found i32[2]");
}

}  // namespace
}  // namespace rlx
