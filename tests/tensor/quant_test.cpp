// Storage types of tensors: decoding is bit-exact against blocks made by the reference; encoding
// stays within the round-trip limits of quality.md (4.3) and never hides a value that is not
// finite.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/file.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

constexpr DType kReferenceTypes[] = {DType::q4_0, DType::q4_1, DType::q5_0,  DType::q5_1,
                                     DType::q8_0, DType::q2_K, DType::q3_K,  DType::q4_K,
                                     DType::q5_K, DType::q6_K, DType::iq4_nl, DType::iq4_xs,
                                     DType::iq3_xxs, DType::iq3_s, DType::iq2_xxs, DType::iq2_xs,
                                     DType::iq2_s, DType::iq1_s, DType::iq1_m, DType::tq1_0,
                                     DType::tq2_0, DType::mxfp4};
constexpr DType kEncodedTypes[] = {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1,
                                   DType::q8_0, DType::q4_K, DType::q6_K, DType::xq8};
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::string golden(const std::string& file) {
  return read_file(std::string(RLX_TEST_DIR "/goldens/quant/") + file);
}

std::vector<float> golden_floats(const std::string& file) {
  const std::string bytes = golden(file);
  std::vector<float> x(bytes.size() / 4);
  std::memcpy(x.data(), bytes.data(), bytes.size());
  return x;
}

std::vector<std::byte> encoded(DType dtype, const std::vector<float>& x) {
  std::vector<std::byte> out(
      static_cast<std::size_t>(row_bytes(dtype, static_cast<std::int64_t>(x.size()))));
  encoder(dtype)(x.data(), out.data(), static_cast<std::int64_t>(x.size()));
  return out;
}

std::vector<float> round_trip(DType dtype, const std::vector<float>& x) {
  const auto bytes = encoded(dtype, x);
  std::vector<float> out(x.size());
  decoder(dtype)(bytes.data(), out.data(), static_cast<std::int64_t>(x.size()));
  return out;
}

double relative_rms_error(const std::vector<float>& x, const std::vector<float>& y) {
  double error = 0, power = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error += (static_cast<double>(x[i]) - y[i]) * (static_cast<double>(x[i]) - y[i]);
    power += static_cast<double>(x[i]) * x[i];
  }
  return std::sqrt(error / power);
}

TEST(Quant, DecodingIsBitExactAgainstTheReference) {
  for (const DType dtype : kReferenceTypes) {
    const std::string type(name(dtype));
    const std::string blocks = golden(type + ".blocks"), expected = golden(type + ".f32");
    const auto n = static_cast<std::int64_t>(expected.size() / 4);
    ASSERT_EQ(row_bytes(dtype, n), static_cast<std::int64_t>(blocks.size())) << type;
    std::vector<float> out(static_cast<std::size_t>(n));
    decoder(dtype)(reinterpret_cast<const std::byte*>(blocks.data()), out.data(), n);
    EXPECT_EQ(std::memcmp(out.data(), expected.data(), expected.size()), 0) << type;
  }
}

TEST(Quant, DecodingWorksAtAnyAddress) {
  for (const DType dtype : kReferenceTypes) {
    const std::string blocks = golden(std::string(name(dtype)) + ".blocks");
    const std::vector<float> expected = golden_floats(std::string(name(dtype)) + ".f32");
    const std::string shifted = "x" + blocks;
    std::vector<float> out(expected.size());
    decoder(dtype)(reinterpret_cast<const std::byte*>(shifted.data()) + 1, out.data(),
                   static_cast<std::int64_t>(out.size()));
    EXPECT_EQ(std::memcmp(out.data(), expected.data(), expected.size() * 4), 0) << name(dtype);
  }
}

TEST(Quant, EncodingOfSimpleFormatsEqualsTheReference) {
  const std::vector<float> inputs = golden_floats("rows.f32");
  for (const DType dtype : {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0}) {
    const auto bytes = encoded(dtype, inputs);
    const std::string expected = golden(std::string(name(dtype)) + ".blocks");
    EXPECT_EQ(std::memcmp(bytes.data(), expected.data(), expected.size()), 0) << name(dtype);
  }
}

// The reference's relative error on the same rows is in goldens/quant/index.json; ours may be a
// little worse, not more.
TEST(Quant, EncodingOfSearchedFormatsIsAsGoodAsTheReference) {
  const std::vector<float> inputs = golden_floats("rows.f32");
  EXPECT_LT(relative_rms_error(inputs, round_trip(DType::q4_K, inputs)), 0.072161 * 1.02);
  EXPECT_LT(relative_rms_error(inputs, round_trip(DType::q6_K, inputs)), 0.019961 * 1.02);
  EXPECT_LT(relative_rms_error(inputs, round_trip(DType::xq8, inputs)), 0.006078 * 1.02);
}

TEST(Quant, RoundTripStaysWithinTheLimit) {
  std::vector<float> x(4096);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.1f + 2.0f * std::cos(static_cast<float>(i));
  for (const DType dtype : kEncodedTypes) {
    const std::vector<float> y = round_trip(dtype, x);
    double error = 0;
    for (std::size_t i = 0; i < x.size(); ++i) error += (x[i] - y[i]) * (x[i] - y[i]);
    EXPECT_LT(std::sqrt(error) / static_cast<double>(x.size()), 0.002) << name(dtype);
  }
}

TEST(Quant, ValueThatIsNotFiniteMakesItsBlockNaN) {
  for (const DType dtype : kEncodedTypes)
    for (const float bad : {kNaN, kInfinity, -kInfinity}) {
      std::vector<float> x(512, 1.0f);
      x[300] = bad;
      const std::vector<float> y = round_trip(dtype, x);
      EXPECT_TRUE(std::isnan(y[300])) << name(dtype);
      EXPECT_NEAR(y[0], 1.0f, 0.1f) << name(dtype) << ": other blocks keep their values";
    }
}

TEST(Quant, ZerosAndTinyValuesEncodeToZero) {
  for (const DType dtype : kEncodedTypes)
    for (const float tiny : {0.0f, -0.0f, 1e-45f, -1e-40f, 3e-39f})
      for (const float v : round_trip(dtype, std::vector<float>(256, tiny)))
        ASSERT_NEAR(v, 0.0f, 1e-38f) << name(dtype) << " " << tiny;
}

TEST(Quant, ConstantAndOneSidedRowsKeepTheirSign) {
  for (const DType dtype : kEncodedTypes)
    for (const float value : {3.5f, -3.5f})
      for (const float v : round_trip(dtype, std::vector<float>(256, value)))
        ASSERT_NEAR(v, value, 0.25f) << name(dtype);
}

TEST(Quant, Xq8IsThreePlanes) {
  std::vector<float> x(64, 0.0f);
  x[0] = -127.0f, x[1] = 2.5f, x[2] = 3.5f, x[17] = 10.0f;  // d = 1; halves round to even
  const auto bytes = encoded(DType::xq8, x);
  ASSERT_EQ(bytes.size(), 88u);
  const auto q = [&](std::size_t i) {
    return static_cast<int>(static_cast<std::int8_t>(bytes[i]));
  };
  EXPECT_EQ(q(0), -127);
  EXPECT_EQ(q(1), 2);
  EXPECT_EQ(q(2), 4);
  EXPECT_EQ(q(17), 10);
  float d[2];
  std::int32_t sums[4];
  std::memcpy(d, bytes.data() + 64, sizeof d);
  std::memcpy(sums, bytes.data() + 72, sizeof sums);
  EXPECT_EQ(d[0], 1.0f);
  EXPECT_EQ(d[1], 0.0f);
  EXPECT_EQ(sums[0], -121);
  EXPECT_EQ(sums[1], 10);
  EXPECT_EQ(sums[2], 0);
}

TEST(Quant, HalfConversionIsExactForAllHalves) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = f16_to_f32(half);
    const int exponent = static_cast<int>(bits >> 10 & 31),
              mantissa = static_cast<int>(bits & 1023);
    if (exponent == 31 && mantissa != 0) {
      ASSERT_TRUE(std::isnan(value));
      ASSERT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value))));
      continue;
    }
    double expected = exponent == 31  ? std::numeric_limits<double>::infinity()
                      : exponent == 0 ? std::ldexp(mantissa, -24)
                                      : std::ldexp(1024 + mantissa, exponent - 25);
    if (bits & 0x8000) expected = -expected;
    ASSERT_EQ(value, expected) << bits;
    ASSERT_EQ(f32_to_f16(value), half) << bits;
  }
}

TEST(Quant, RoundingToHalfIsToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {  // between each half and the next
    const float low = f16_to_f32(static_cast<std::uint16_t>(bits)),
                high = f16_to_f32(static_cast<std::uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;  // exact
    ASSERT_EQ(f32_to_f16(middle), bits + (bits & 1)) << bits;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), bits) << bits;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, kInfinity)), bits + 1) << bits;
  }
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-1e30f), 0xfc00);
  EXPECT_EQ(f32_to_f16(-0.0f), 0x8000);
}

TEST(Quant, RoundingToBfloatIsToNearestEven) {
  EXPECT_EQ(f32_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(Quant, IntegersRoundAndSaturate) {
  EXPECT_EQ(round_trip(DType::i8, {2.5f, -300.0f, 300.0f, kNaN}),
            (std::vector<float>{2, -128, 127, 0}));
  EXPECT_EQ(round_trip(DType::u16, {-1.0f, 3.5f, 1e9f, kInfinity}),
            (std::vector<float>{0, 4, 65535, 65535}));
  EXPECT_EQ(round_trip(DType::i64, {-1e30f, 1e30f, 7.0f}),
            (std::vector<float>{-0x1p63f, 0x1p63f, 7}));
  EXPECT_EQ(round_trip(DType::boolean, {0.0f, -0.0f, 0.25f, kNaN}),
            (std::vector<float>{0, 0, 1, 1}));
  EXPECT_EQ(round_trip(DType::f64, {0.1f, -2.0f}), (std::vector<float>{0.1f, -2.0f}));
}

TEST(Quant, EveryTypeDecodesAndTheStatedOnesEncode) {
  for (const DTypeInfo& row : all_dtypes()) {
    EXPECT_NE(decoder(row.dtype), nullptr) << row.name;
    const bool decode_only = row.dtype == DType::q2_K || row.dtype == DType::q3_K ||
                             row.dtype == DType::q5_K ||
                             (row.dtype >= DType::iq4_nl && row.dtype < DType::xq8);
    EXPECT_EQ(encoder(row.dtype) == nullptr, decode_only) << row.name;
  }
}

// Any bytes are valid blocks: decoding random ones must stay in bounds and not trap.
TEST(Quant, RandomBlocksDecode) {
  std::mt19937 random(7);
  for (const DTypeInfo& row : all_dtypes()) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(row_bytes(row.dtype, 1024)));
    for (std::byte& b : bytes) b = static_cast<std::byte>(random() & 255);
    std::vector<float> out(1025, 42.0f);
    decoder(row.dtype)(bytes.data(), out.data(), 1024);
    EXPECT_EQ(out[1024], 42.0f) << row.name;
  }
}

}  // namespace
}  // namespace rlx
