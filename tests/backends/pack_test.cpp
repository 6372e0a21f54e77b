// Panels of weights: nothing of a file's integers and scales is lost, and sizes stay near the file.
#include <gtest/gtest.h>

#include "backends/cpu/panels.h"
#include "backends/matmul_case.h"

namespace rlx::cpu {
namespace {

Floats unpack(DType d, const std::byte* panels, std::int64_t n, std::int64_t k) {
  Floats values(static_cast<std::size_t>(n * k));
  for (std::int64_t r = 0; r < n; ++r) unpack_row(panels, d, k, r, values.data() + r * k);
  return values;
}

TEST(Pack, EveryTypeComesBackBitForBit) {
  std::vector<DType> types(std::begin(kBlockTypes), std::end(kBlockTypes));
  types.insert(types.end(), std::begin(kFloatTypes), std::end(kFloatTypes));
  for (const DType d : types)
    for (const std::int64_t blocks : {1, 2, 3, 7})
      for (const std::int64_t n : {1, 15, 16, 17, 33}) {
        const std::int64_t k = blocks * info(d).block_elements;
        const Data rows = random_weights(d, n, k, 7);
        Panels panels(d, rows, n, k);
        EXPECT_TRUE(same_bits(unpack(d, panels.bytes.data(), n, k), decode_rows(d, rows, k)))
            << name(d) << " [" << n << ", " << k << "]";
        for (int i = 0; i < 64; ++i)
          ASSERT_EQ(panels.bytes.data()[packed_bytes(d, n, k) + i], std::byte{0xcc}) << name(d);
      }
}

TEST(Pack, SizesStayNearTheFile) {
  for (const DType d : kBlockTypes) {
    const double file = static_cast<double>(row_bytes(d, 2048)) * 160;
    // A code of its own for each value, in place of an index for four or eight: decisions.md.
    const double most = panel_form(d) == DType::iq2_xs   ? 2.33
                        : d == DType::tq1_0              ? 1.26
                        : panel_form(d) == DType::iq4_xs ? 1.43
                                                         : 1.06;
    EXPECT_LE(static_cast<double>(packed_bytes(d, 160, 2048)), file * most) << name(d);
  }
  EXPECT_LE(packed_bytes(DType::iq4_xs, 160, 2048), row_bytes(DType::iq4_xs, 2048) * 160 * 1.03);
  EXPECT_EQ(packed_bytes(DType::q4_1, 16, 64), 16 * 2 * 20);
  EXPECT_EQ(packed_bytes(DType::q4_K, 16, 256), 2368);
  EXPECT_EQ(packed_bytes(DType::q6_K, 16, 256), 3392);
  EXPECT_EQ(packed_bytes(DType::bf16, 17, 3), 2 * 2 * 64);
}

TEST(Pack, DisjointRangesOfPanelsGiveTheWholeMatrix) {
  const std::int64_t n = 70, k = 256;
  for (const DType d : kBlockTypes) {
    const Data rows = random_weights(d, n, k, 3);
    Panels whole(d, rows, n, k);
    const auto bytes = static_cast<std::size_t>(packed_bytes(d, n, k));
    Bytes parts(static_cast<std::int64_t>(bytes));
    std::thread other([&] { pack_panels({rows.data(), d, n, k}, d, 3, 5, parts.data()); });
    pack_panels({rows.data(), d, n, k}, d, 0, 3, parts.data());
    other.join();
    EXPECT_EQ(std::memcmp(parts.data(), whole.bytes.data(), bytes), 0) << name(d);
  }
}

TEST(Pack, RoundsFloatsAsTheEncodersDo) {
  const std::int64_t n = 19, k = 96;
  for (const DType from : kFloatTypes)
    for (const DType to : {DType::f32, DType::f16, DType::bf16, DType::q8_0}) {
      ASSERT_TRUE(can_pack(from, to, k));
      const Data rows = random_weights(from, n, k, 5);
      Bytes panels(packed_bytes(to, n, k));
      pack_panels({rows.data(), from, n, k}, to, 0, 2, panels.data());
      const Floats expected = decode_rows(to, encode_rows(to, decode_rows(from, rows, k), k), k);
      EXPECT_TRUE(same_bits(unpack(to, panels.data(), n, k), expected))
          << name(from) << " to " << name(to);
    }
}

TEST(Pack, WidensQuantisedWeightsToBf16) {
  const std::int64_t n = 17, k = 256;
  for (const DType from : kBlockTypes) {
    ASSERT_TRUE(can_pack(from, DType::bf16, k));
    const Data rows = random_weights(from, n, k, 5);
    Bytes panels(packed_bytes(DType::bf16, n, k));
    pack_panels({rows.data(), from, n, k}, DType::bf16, 0, 2, panels.data());
    const Floats expected =
        decode_rows(DType::bf16, encode_rows(DType::bf16, decode_rows(from, rows, k), k), k);
    EXPECT_TRUE(same_bits(unpack(DType::bf16, panels.data(), n, k), expected)) << name(from);
  }
}

TEST(Pack, RefusesWhatWouldChangeTheWeights) {
  EXPECT_FALSE(can_pack(DType::q4_0, DType::q8_0, 64));
  EXPECT_FALSE(can_pack(DType::q4_0, DType::f32, 64));
  EXPECT_FALSE(can_pack(DType::f32, DType::q3_K, 256)) << "no encoder";
  EXPECT_TRUE(can_pack(DType::f32, DType::q4_0, 64));
  EXPECT_FALSE(can_pack(DType::i32, DType::i32, 64));
  EXPECT_FALSE(can_pack(DType::q4_0, DType::q4_0, 48)) << "a part of a block";
  EXPECT_FALSE(can_pack(DType::f32, DType::q8_0, 33));
  EXPECT_TRUE(can_pack(DType::f16, DType::f16, 33));
}

}  // namespace
}  // namespace rlx::cpu
