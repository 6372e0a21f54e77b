// References against values worked out by hand or known from elsewhere (tables of erf, powers of
// two, unit vectors).
#include <cmath>
#include <limits>

#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/quant.h"
#include "ops/support.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

TEST(Values, AddAndMulBroadcastAsNumPy) {
  expect_near(run_op(Add{}, {f32({2, 3}, {1, 2, 3, 4, 5, 6}), f32({3}, {10, 20, 30})}),
              {11, 22, 33, 14, 25, 36});
  expect_near(run_op(Mul{}, {f32({2, 1}, {2, -3}), f32({1, 3}, {1, 0.5, 4})}),
              {2, 1, 8, -3, -1.5, -12});
  expect_near(run_op(Add{}, {f32({1}, {1}), f32({2, 2}, {1, 2, 3, 4})}), {2, 3, 4, 5});
  // [2, 1, 2] with [3, 2]: the middle axis repeats.
  expect_near(
      run_op(Add{}, {f32({2, 1, 2}, {0, 1, 10, 11}), f32({3, 2}, {0, 0, 100, 100, 200, 200})}),
      {0, 1, 100, 101, 200, 201, 10, 11, 110, 111, 210, 211});
}

// Sizes are 64 bits wide; what an i32 holds of them is exact modulo 2^32.
TEST(Values, IotaCountsModulo32Bits) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();  // -1 modulo 2^32
  const auto counted = [](const Iota& op) {
    const Tensor t = run_op(op, {});
    const auto values = t.as<std::int32_t>();
    return std::vector<std::int32_t>(values.begin(), values.end());
  };
  EXPECT_EQ(counted({.dims = {3}, .step = most}), (std::vector<std::int32_t>{0, -1, -2}));
  EXPECT_EQ(counted({.dims = {3}, .start = (std::int64_t{1} << 53) + 1}), (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(counted({.dims = {2}, .start = (std::int64_t{1} << 31) - 1}),
            (std::vector<std::int32_t>{2147483647, -2147483647 - 1}));
}

TEST(Values, Activations) {
  const Tensor x = f32({3}, {0, 1, -1});
  expect_near(run_op(Activation{Act::silu}, {x}), {0, 0.7310585786, -0.2689414214});
  expect_near(run_op(Activation{Act::gelu}, {x}),
              {0, 0.8413447461, -0.1586552539});  // the normal distribution at 1
  expect_near(run_op(Activation{Act::gelu_tanh}, {x}), {0, 0.8411919906, -0.1588080094});
  expect_near(run_op(Activation{Act::relu}, {x}), {0, 1, 0});
  expect_near(run_op(Activation{Act::none}, {x}), {0, 1, -1});
  for (Act act : {Act::silu, Act::gelu, Act::gelu_tanh, Act::relu})
    EXPECT_TRUE(std::isnan(run_op(Activation{act}, {f32({1}, {kNan})}).to_floats()[0]));
}

TEST(Values, ScaleAndSoftcap) {
  expect_near(run_op(Scale{-0.5f}, {f32({2}, {4, -3})}), {-2, 1.5});
  // Far above the cap the result is the cap itself; near zero the cap changes nothing (faults N11).
  expect_near(run_op(Softcap{30}, {f32({4}, {600, -600, 0.01f, 30})}), {30, -30, 0.01, 22.8478247});
}

TEST(Values, CastRoundsToNearestEven) {
  const Tensor half =
      run_op(Cast{DType::f16}, {f32({4}, {1.0f + 0x1p-11f, 1.0f + 3 * 0x1p-11f, 65520, 0x1p-25f})});
  EXPECT_EQ(half.dtype(), DType::f16);
  expect_near(half, {1.0, 1.0 + 0x1p-9, INFINITY, 0.0}, 0);
  expect_near(run_op(Cast{DType::bf16}, {f32({2}, {1.0f + 0x1p-8f, 1.0f + 3 * 0x1p-8f})}),
              {1.0, 1.0 + 0x1p-6}, 0);
  expect_near(run_op(Cast{DType::f32}, {half}), {1.0, 1.0 + 0x1p-9, INFINITY, 0.0}, 0);
}

TEST(Values, RmsNorm) {
  // mean(x^2) = (9 + 16) / 2 = 12.5; with eps = 12.5 the root is 5.
  expect_near(run_op(RmsNorm{.eps = 12.5f}, {f32({1, 2}, {3, 4}), f32({2}, {1, 10})}), {0.6, 8});
  expect_near(
      run_op(RmsNorm{.eps = 12.5f, .weight_offset = 1}, {f32({1, 2}, {3, 4}), f32({2}, {0, 1})}),
      {0.6, 1.6});
  // Two groups of two lanes, each of its own size: the result has root mean square 1.
  expect_near(
      run_op(RmsNorm{.eps = 0, .group = 2}, {f32({1, 4}, {1, 1, 300, -300}), f32({2}, {1, 2})}),
      {1, 2, 1, -2});
  expect_near(run_op(RmsNorm{.eps = 1e-6f}, {f32({1, 2}, {0, 0}), f32({2}, {1, 1})}), {0, 0});
}

TEST(Values, QuantizeRows) {
  std::vector<float> x(64, 0.0f);
  for (std::size_t i = 0; i < 32; ++i) x[i] = static_cast<float>(i) * 0.5f - 8.0f;  // -8 .. 7.5
  x[0] = -12.7f;                                                                    // d = 0.1
  const Tensor y = run_op(QuantizeRows{}, {f32({1, 64}, x)});
  const std::byte* row = y.data();
  const auto* q = reinterpret_cast<const std::int8_t*>(row);
  const auto* d = reinterpret_cast<const float*>(row + 64);
  const auto* sums = reinterpret_cast<const std::int32_t*>(row + 64 + 8);
  EXPECT_EQ(q[0], -127);
  EXPECT_EQ(q[1], -75);
  EXPECT_EQ(q[31], 75);
  EXPECT_FLOAT_EQ(d[0], 0.1f);
  EXPECT_EQ(d[1], 0.0f);  // a group of zeros
  EXPECT_EQ(q[40], 0);
  EXPECT_EQ(sums[0],
            -127 - 75 - 70 - 65 - 60 - 55 - 50 - 45 - 40 - 35 - 30 - 25 - 20 - 15 - 10 - 5);
  EXPECT_EQ(sums[1], 75 * 16 / 2);  // 0, 5, .. 75
  EXPECT_EQ(sums[2], 0);
}

TEST(Values, QuantizeRowsMarksGroupsThatAreNotFinite) {
  for (const float bad : {kNan, INFINITY, -INFINITY}) {
    std::vector<float> x(64, 1.0f);
    x[37] = bad;
    const std::vector<float> y = run_op(QuantizeRows{}, {f32({1, 64}, x)}).to_floats();
    EXPECT_FLOAT_EQ(y[0], 1.0f);
    EXPECT_TRUE(std::isnan(y[32])) << bad;
  }
}

TEST(Values, LinearIsXTimesTransposedW) {
  const Tensor x = f32({2, 3}, {1, 2, 3, 0, -1, 1}), w = f32({2, 3}, {1, 0, 2, -1, 4, 0});
  expect_near(run_op(Linear{}, {x, w}), {7, 7, 2, -4});
  expect_near(run_op(Linear{.bias = true}, {x, w, f32({2}, {10, 20})}), {17, 27, 12, 16});
  // The activation stands before the residual.
  expect_near(run_op(Linear{.act = Act::relu, .bias = true, .residual = true},
                     {x, w, f32({2}, {0, -1}), f32({2, 2}, {1, 1, 1, -5})}),
              {8, 7, 3, -5});
  expect_near(run_op(Linear{.residual = true}, {x, w, f32({2, 2}, {1, 1, 1, 1})}), {8, 8, 3, -3});
}

TEST(Values, LinearDecodesBlocks) {
  // One q8_0 block per row: d = 0.5, codes 0 .. 31; and x = 1: 0.5 * 496.
  Tensor w = Tensor::zeros({1, 32}, DType::q8_0);
  auto bytes = w.mutable_as<std::uint8_t>();
  bytes[0] = 0x00;
  bytes[1] = 0x38;  // f16 0.5
  for (std::size_t i = 0; i < 32; ++i) bytes[2 + i] = static_cast<std::uint8_t>(i);
  expect_near(run_op(Linear{}, {f32({1, 32}, std::vector<float>(32, 1.0f)), w}), {248});
  const Tensor x = run_op(QuantizeRows{}, {f32({1, 32}, std::vector<float>(32, 2.0f))});
  expect_near(run_op(Linear{}, {x, w}), {496}, 1e-6);
}

TEST(Values, GatedLinear) {
  const Tensor x = f32({1, 2}, {1, 2}), gate = f32({2, 2}, {1, 0, -1, 0}),
               up = f32({2, 2}, {0, 1, 0, 3});
  expect_near(run_op(GatedLinear{Act::silu}, {x, gate, up}), {2 * 0.7310585786, 6 * -0.2689414214});
  expect_near(run_op(GatedLinear{Act::none}, {x, gate, up}), {2, -6});
}

TEST(Values, RowsByIndex) {
  const Tensor table = f32({3, 2}, {0, 1, 10, 11, 20, 21});
  expect_near(run_op(Embedding{.scale = 2}, {table, i32({2, 0, 2})}), {40, 42, 0, 2, 40, 42});
  expect_near(run_op(SelectRows{}, {table, i32({1, 1})}), {10, 11, 10, 11});
  EXPECT_EQ(run_op(SelectRows{}, {table, i32({})}).dims(), (std::vector<std::int64_t>{0, 2}));
}

TEST(Values, IndicesOutsideTheirRangeAreErrors) {
  const Tensor table = f32({3, 2}, {0, 1, 10, 11, 20, 21});
  for (const std::int32_t id : {3, -1}) try {
      run_op(Embedding{}, {table, i32({0, id})});
      ADD_FAILURE() << id;
    } catch (const Error& e) {
      EXPECT_EQ(
          std::string(e.what()),
          fmt::format("embedding: tokens: expected a value from 0 to 2, found {} at place 1", id));
    }
  EXPECT_THROW(run_op(SelectRows{}, {table, i32({3})}), Error);
}

TEST(Values, PackKeepsValues) {
  const Tensor w = f32({1, 32}, std::vector<float>(32, 3.0f));
  for (const DType d : {DType::f32, DType::f16, DType::bf16, DType::q8_0}) {
    const Tensor packed = run_op(Pack{.dtype = d}, {w});
    EXPECT_EQ(packed.dtype(), d);
    expect_near(packed, std::vector<double>(32, 3.0), 1e-3);
  }
}

}  // namespace
}  // namespace rlx
