// Section 11 of the design of the compiler: what a profile says about weights reaches the executables.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "rlx/rlx.h"
#include "runtime/toy_model.h"

namespace rlx {
namespace {

std::vector<float> logits(const ToyModel& toy, const CompileOptions& compile, DecoderStats* stats = nullptr,
                          std::string* kernels = nullptr) {
  DecoderOptions options;
  options.threads = 1;
  options.compile = compile;
  Decoder d(toy.load(), options);
  const std::vector<std::int32_t> tokens = {5, 17, 300, 2};
  const auto l = d.step(tokens);
  if (stats != nullptr) *stats = d.stats();
  if (kernels != nullptr) *kernels = d.text("lir", {});
  return {l.begin(), l.end()};
}

TEST(section11_quant, FloatWeightsAreQuantisedWhenTheyArePacked) {
  const ToyModel toy(DType::f32);
  DecoderStats plain_stats;
  const std::vector<float> plain = logits(toy, {}, &plain_stats);
  float largest = 0;
  for (float v : plain) largest = std::max(largest, std::fabs(v));
  for (const DType format : {DType::q8_0, DType::q4_0, DType::q4_K, DType::q6_K}) {
    DecoderStats stats;
    std::string kernels;
    const CompileOptions options = apply(parse_profile_toml(fmt::format("quant = \"{}\"", name(format)), "test"), {});
    const std::vector<float> quantised = logits(toy, options, &stats, &kernels);
    EXPECT_LT(stats.weight_bytes, plain_stats.weight_bytes / 2) << name(format);
    EXPECT_NE(kernels.find(name(format)), std::string::npos) << kernels;
    EXPECT_NE(quantised, plain);
    float worst = 0;
    for (std::size_t i = 0; i < plain.size(); ++i) worst = std::max(worst, std::fabs(plain[i] - quantised[i]));
    // 4 bits: a step of about a fifteenth of the largest of 32 values, averaged over sums of 256 terms in 3 layers.
    EXPECT_LT(worst, 0.3f * largest) << name(format);
  }
}

TEST(section11_quant, FilesThatAreQuantisedStay) {
  const ToyModel toy(DType::q8_0);
  CompileOptions options;
  options.quant = QuantScheme{DType::q4_0};
  EXPECT_EQ(logits(toy, options), logits(toy, {}));
}

TEST(section11_quant, Bf16ProductsCannotReadThem) {
  const ToyModel toy(DType::f32);
  CompileOptions options;
  options.quant = QuantScheme{DType::q4_0};
  options.precision.activations = Activations::bf16;
  try {
    logits(toy, options);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
    EXPECT_STREQ(e.what(), "quantised weights with bf16 activations: products in bf16 read bf16 weights");
  }
}

TEST(section11_quant, AProfileFillsWhatTheOptionsLeaveOpen) {
  const CompileProfile profile = parse_profile_toml("quant = 'q4_0'\nprecision.activations = 'f32'", "test");
  CompileOptions fixed;
  fixed.precision.activations = Activations::int8;
  fixed.quant = QuantScheme{DType::q8_0};
  EXPECT_EQ(apply(profile, fixed).precision.activations, Activations::int8);
  EXPECT_EQ(apply(profile, fixed).quant, fixed.quant);
  EXPECT_EQ(apply(profile, {}).precision.activations, Activations::f32);
  EXPECT_EQ(apply(profile, {}).quant->weights, DType::q4_0);
}

}  // namespace
}  // namespace rlx
