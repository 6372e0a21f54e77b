// RMS norm and the quantisation of activations against plain loops in double.
#include <limits>

#include "backends/kernel_run.h"
#include "ops/norm.h"
#include "ops/quant.h"

namespace rlx::cpu {
namespace {

Floats rms_norm_loop(const Floats& x, const Floats& w, std::size_t group, const RmsNorm& op) {
  Floats y(x.size());
  for (std::size_t at = 0; at < x.size(); at += group) {
    double squares = 0;
    for (std::size_t i = 0; i < group; ++i) squares += double{x[at + i]} * x[at + i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(group) + op.eps);
    for (std::size_t i = 0; i < group; ++i)
      y[at + i] = static_cast<float>(x[at + i] * scale * (double{w[i]} + op.weight_offset));
  }
  return y;
}

// A row of xq8 (tensor/dtype.h): q, scales, sums.
struct Xq8Row {
  std::vector<std::int8_t> q;
  Floats d;
  std::vector<std::int32_t> sums;
};
Xq8Row xq8_row(const std::byte* p, std::size_t n) {
  Xq8Row r{std::vector<std::int8_t>(n), Floats(n / 32), std::vector<std::int32_t>(n / 16)};
  std::memcpy(r.q.data(), p, n);
  std::memcpy(r.d.data(), p + n, n / 8);
  std::memcpy(r.sums.data(), p + n + n / 8, n / 4);
  return r;
}

void expect_sums(const Xq8Row& r) {
  for (std::size_t i = 0; i < r.sums.size(); ++i) {
    std::int32_t sum = 0;
    for (std::size_t j = 0; j < 16; ++j) sum += r.q[i * 16 + j];
    EXPECT_EQ(r.sums[i], sum);
  }
}

TEST(RmsNorm, EveryTailLengthGroupAndOffset) {
  for (const Kernel& k : rows("rms_norm"))
    for (std::int64_t g = 1; g < 70; ++g)
      for (const std::int64_t groups : {1, 3}) {
        const RmsNorm op{.eps = 1e-5f, .weight_offset = g % 2 == 0 ? 1.0f : 0.0f,
            .group = static_cast<std::int32_t>(groups > 1 ? g : 0)};
        Floats x = normal(static_cast<std::size_t>(5 * groups * g), 1),
            w = normal(static_cast<std::size_t>(g), 2), y(x.size());
        run(k, &op, {view(x, {5, groups * g}), view(w, {g})}, {view(y, {5, groups * g})}, {.threads = 3});
        const Floats expected = rms_norm_loop(x, w, static_cast<std::size_t>(g), op);
        for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i],
            2e-6 * (1 + std::fabs(expected[i]))) << k.name << " " << g;
      }
}

TEST(RmsNorm, ViewsWithStridesAndInPlace) {
  for (const Kernel& k : rows("rms_norm")) {
    const RmsNorm op;
    Floats memory = normal(6 * 50, 3), w = normal(40, 4), packed(6 * 40), y(6 * 40);
    for (std::size_t r = 0; r < 6; ++r) std::copy_n(&memory[r * 50], 40, &packed[r * 40]);
    run(k, &op, {view(packed, {6, 40}), view(w, {40})}, {view(y, {6, 40})});
    TensorView strided = view(memory, {2, 3, 40});
    strided.strides[0] = 3 * 50 * 4;
    strided.strides[1] = 50 * 4;
    run(k, &op, {strided, view(w, {40})}, {strided});
    for (std::size_t r = 0; r < 6; ++r) EXPECT_EQ(std::memcmp(&memory[r * 50], &y[r * 40], 160), 0) << k.name;
  }
}

TEST(RmsNorm, NanInARowMakesTheWholeRowNan) {
  for (const Kernel& k : rows("rms_norm")) {
    const RmsNorm op;
    Floats x = normal(2 * 37, 5), w(37, 1.0f), y(x.size());
    x[36] = std::numeric_limits<float>::quiet_NaN();
    run(k, &op, {view(x, {2, 37}), view(w, {37})}, {view(y, {2, 37})});
    for (std::size_t i = 0; i < 37; ++i) {
      EXPECT_TRUE(std::isnan(y[i]));
      EXPECT_TRUE(std::isfinite(y[37 + i]));
    }
  }
}

TEST(QuantizeRows, RoundsToNearestEvenOfMaxOver127) {
  for (const Kernel& k : rows("quantize_rows"))
    for (const float scale : {1.0f, 1e30f, 1e-30f, 1e-42f}) {
      const QuantizeRows op;
      Floats x = normal(3 * 96, 6, scale);
      std::fill_n(x.begin() + 32, 32, 0.0f);
      std::vector<std::byte> y(3 * 132);
      run(k, &op, {view(x, {3, 96})}, {view(y.data(), {3, 96}, DType::xq8)}, {.threads = 4});
      for (std::size_t r = 0; r < 3; ++r) {
        const Xq8Row row = xq8_row(&y[r * 132], 96);
        expect_sums(row);
        for (std::size_t g = 0; g < 3; ++g) {
          double most = 0;
          for (std::size_t i = 0; i < 32; ++i) most = std::max(most, std::fabs(double{x[r * 96 + g * 32 + i]}));
          EXPECT_NEAR(row.d[g], most / 127, most * 1e-7 + 1e-45);
          for (std::size_t i = 0; i < 32; ++i) {
            const double exact = most == 0 ? 0 : x[r * 96 + g * 32 + i] * 127 / most;
            EXPECT_NEAR(row.q[g * 32 + i], exact, 0.5001) << k.name << " scale " << scale;
          }
        }
      }
    }
}

TEST(QuantizeRows, AGroupThatIsNotFiniteGetsNan) {
  for (const Kernel& k : rows("quantize_rows"))
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()})
      for (std::size_t at = 0; at < 32; ++at) {
        const QuantizeRows op;
        Floats x = normal(64, 7);
        x[at] = bad;
        std::vector<std::byte> y(88);
        run(k, &op, {view(x, {1, 64})}, {view(y.data(), {1, 64}, DType::xq8)});
        const Xq8Row row = xq8_row(y.data(), 64);
        EXPECT_TRUE(std::isnan(row.d[0])) << k.name << " lane " << at;
        EXPECT_TRUE(std::isfinite(row.d[1]));
      }
}

// One formula on all paths: q of x * w, then d times 1/rms (kernels.md, 2.3).
TEST(RmsNormQuantize, IsTheQuantisationOfWeightedValuesTimesInverseRms) {
  for (const Kernel& k : rows("rms_norm_quantize"))
    for (const std::int64_t n : {32, 64, 576, 1536}) {
      const RmsNormQuantize op{.eps = 1e-5f, .weight_offset = 1.0f};
      const auto size = static_cast<std::size_t>(n);
      Floats x = normal(2 * size, 8), w = normal(size, 9, 0.1f), weighted(2 * size);
      for (std::size_t i = 0; i < 2 * size; ++i) weighted[i] = x[i] * (w[i % size] + 1.0f);
      std::vector<std::byte> fused(size / 32 * 88), plain(size / 32 * 88);
      run(k, &op, {view(x, {2, n}), view(w, {n})}, {view(fused.data(), {2, n}, DType::xq8)}, {.threads = 2});
      const QuantizeRows quantize;
      run(rows("quantize_rows").back(), &quantize, {view(weighted, {2, n})}, {view(plain.data(), {2, n}, DType::xq8)});
      for (std::size_t r = 0; r < 2; ++r) {
        const Xq8Row a = xq8_row(&fused[r * size / 32 * 44], size), b = xq8_row(&plain[r * size / 32 * 44], size);
        EXPECT_EQ(a.q, b.q) << k.name;
        EXPECT_EQ(a.sums, b.sums);
        double squares = 0;
        for (std::size_t i = 0; i < size; ++i) squares += double{x[r * size + i]} * x[r * size + i];
        for (std::size_t g = 0; g < size / 32; ++g)
          EXPECT_NEAR(a.d[g], b.d[g] / std::sqrt(squares / static_cast<double>(n) + op.eps), 1e-6 * a.d[g]);
      }
    }
}

}  // namespace
}  // namespace rlx::cpu
