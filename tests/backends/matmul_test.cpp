// The products of the CPU backend, on every level that this machine has.
#include <gtest/gtest.h>

#include <limits>

#include "backends/matmul_case.h"
#include "backends/matmul_model.h"

namespace rlx::cpu {
namespace {

struct Pair {
  DType x, w;
};
std::vector<Pair> pairs() {
  std::vector<Pair> all = {{DType::f32, DType::f32},
                           {DType::f32, DType::f16},
                           {DType::f32, DType::bf16},
                           {DType::bf16, DType::bf16}};
  for (const DType w : kBlockTypes) all.insert(all.end(), {{DType::xq8, w}, {DType::f32, w}});
  return all;
}
std::string text(const Level& level, const Pair& p) {
  return std::string(level.name) + " " + std::string(name(p.x)) + " x " + std::string(name(p.w));
}

template <typename F>
void for_each_row(F f) {
  for (const Level& level : levels())
    for (const Pair& p : pairs())
      if (const Kernel* row = find_row(level, "linear", p.x, p.w)) f(level, p, *row);
}

TEST(Matmul, IntegerProductsEqualTheScalarModelBitForBit) {
  for (const Level& level : levels())
    for (const DType w : kBlockTypes)
      for (const std::int64_t n : {1, 15, 16, 17, 33}) {
        const Kernel* row = find_row(level, "linear", DType::xq8, w);
        if (!row) continue;
        const std::int64_t k = 3 * info(w).block_elements, rows = 9;
        const Data weights = random_weights(w, n, k, 11);
        Panels panels(w, weights, n, k);
        Tokens x(DType::xq8, normal(static_cast<std::size_t>(rows * k), 12), k);
        for (const std::int64_t count : {1, 2, 3, 4, 5, 9}) {
          const Floats y = run_linear(*row, x, panels, 0, count);
          for (std::int64_t m = 0; m < count; ++m)
            for (std::int64_t j = 0; j < n; ++j)
              ASSERT_EQ(y[static_cast<std::size_t>(m * n + j)],
                        model::dot(w, x.data.data() + m * x.stride(),
                                   weights.data() + j * row_bytes(w, k), k, level.fused))
                  << text(level, {DType::xq8, w}) << " rows " << count << ": [" << m << ", " << j
                  << "] of " << n;
        }
      }
}

// The extreme integers of each type: the int16 sums of avx2 must not saturate.
TEST(Matmul, ExtremeIntegersDoNotOverflow) {
  for (const Level& level : levels())
    for (const DType w : kBlockTypes) {
      const Kernel* row = find_row(level, "linear", DType::xq8, w);
      if (!row) continue;
      const std::int64_t n = 16, k = 512;
      for (const int fill : {0xff, 0x00, 0x80, 0x7f}) {
        Data weights(static_cast<std::size_t>(n * row_bytes(w, k)));
        std::fill(weights.begin(), weights.end(), static_cast<std::byte>(fill));
        const auto block = static_cast<std::size_t>(info(w).block_bytes);
        for (std::size_t at = 0; at < weights.size(); at += block)
          set_block_scale(w, weights.data() + at, 0.1f, -0.07f);
        Panels panels(w, weights, n, k);
        Floats values(static_cast<std::size_t>(5 * k));
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = i / 512 % 2 ? -1.0f : 1.0f;
        Tokens x(DType::xq8, values, k);
        for (const std::int64_t count : {1, 5}) {
          const Floats y = run_linear(*row, x, panels, 0, count);
          for (std::int64_t m = 0; m < count; ++m)
            for (std::int64_t j = 0; j < n; ++j)
              ASSERT_EQ(y[static_cast<std::size_t>(m * n + j)],
                        model::dot(w, x.data.data() + m * x.stride(),
                                   weights.data() + j * row_bytes(w, k), k, level.fused))
                  << text(level, {DType::xq8, w}) << " fill " << fill;
        }
      }
    }
}

TEST(Matmul, FloatProductsAreNearTheExactOnes) {
  for_each_row([](const Level& level, const Pair& p, const Kernel& row) {
    if (p.x == DType::xq8) return;
    const bool floats = is_float(p.w);
    for (const std::int64_t k :
         floats ? std::vector<std::int64_t>{1, 2, 7, 33, 600} : std::vector<std::int64_t>{256, 768})
      for (const std::int64_t n : {1, 17}) {
        const Data weights = random_weights(p.w, n, k, 21);
        Panels panels(p.w, weights, n, k);
        Tokens x(p.x, normal(static_cast<std::size_t>(7 * k), 22), k);
        const Floats xs = decode_rows(p.x, x.data, k), ws = decode_rows(p.w, weights, k);
        for (const std::int64_t count : {1, 2, 3, 7}) {
          const Floats y = run_linear(row, x, panels, 0, count);
          for (std::int64_t i = 0; i < count * n; ++i) {
            double exact = 0, size = 0;
            for (std::int64_t c = 0; c < k; ++c) {
              const double term = static_cast<double>(xs[static_cast<std::size_t>(i / n * k + c)]) *
                                  ws[static_cast<std::size_t>(i % n * k + c)];
              exact += term, size += std::fabs(term);
            }
            ASSERT_NEAR(y[static_cast<std::size_t>(i)], exact,
                        1e-7 * static_cast<double>(k + 2) * size)
                << text(level, p) << " k " << k;
          }
        }
      }
  });
}

// kernels.md, 2.8: a result does not depend on how many rows are computed with it. 4608 and 2304
// columns also cross the parts of k in which panels are unpacked.
TEST(Matmul, OneRowEqualsTheSameRowAmongOthers) {
  for_each_row([](const Level& level, const Pair& p, const Kernel& row) {
    const std::int64_t k = p.x == DType::xq8 ? 4608 : 2304, n = 40, rows = 65;
    Panels panels(p.w, random_weights(p.w, n, k, 31), n, k);
    Tokens x(p.x, normal(static_cast<std::size_t>(rows * k), 32), k);
    Floats alone;
    for (std::int64_t m = 0; m < rows; ++m) {
      const Floats y = run_linear(row, x, panels, m, 1);
      alone.insert(alone.end(), y.begin(), y.end());
    }
    for (const std::int64_t count : {2, 3, 5, 8, 9, 17, 64, 65}) {
      const Floats y = run_linear(row, x, panels, rows - count, count);
      ASSERT_TRUE(same_bits(y, Floats(alone.end() - count * n, alone.end())))
          << text(level, p) << " rows " << count;
    }
  });
}

TEST(Matmul, OneThreadEqualsSeveral) {
  for_each_row([](const Level& level, const Pair& p, const Kernel& row) {
    const std::int64_t k = 256, rows = 197;  // enough for three threads to cut them
    for (const std::int64_t n : {17, 140}) {
      Panels panels(p.w, random_weights(p.w, n, k, 41), n, k);
      Tokens x(p.x, normal(static_cast<std::size_t>(rows * k), 42), k);
      for (const std::int64_t count : {std::int64_t{1}, std::int64_t{37}, rows}) {
        const Floats one = run_linear(row, x, panels, 0, count);
        for (const int threads : {2, 3, 7})
          ASSERT_TRUE(same_bits(one, run_linear(row, x, panels, 0, count, {threads, threads == 3})))
              << text(level, p) << " threads " << threads << " rows " << count << " n " << n;
      }
    }
  });
}

TEST(Matmul, BiasActivationAndResidualFollowTheSum) {
  for (const Level& level : levels())
    for (const Act act : {Act::none, Act::silu, Act::gelu_tanh, Act::gelu, Act::relu})
      for (const bool bias : {false, true})
        for (const bool residual : {false, true}) {
          const Kernel* row = find_row(level, "linear", DType::xq8, DType::q4_0);
          if (!row) continue;
          const std::int64_t n = 21, k = 64, rows = 6;
          Panels panels(DType::q4_0, random_weights(DType::q4_0, n, k, 51), n, k);
          Tokens x(DType::xq8, normal(static_cast<std::size_t>(rows * k), 52), k);
          const Floats sums = run_linear(*row, x, panels, 0, rows);
          Floats b = normal(21, 53), r = normal(static_cast<std::size_t>(rows * n), 54),
                 y(r.size());
          const Linear op{act, bias, residual};
          std::vector<TensorView> in = {x.view(0, rows), panels.view()};
          if (bias) in.push_back(view(b, {n}));
          if (residual) in.push_back(view(r, {rows, n}));
          run(*row, &op, in, {view(y, {rows, n})});
          for (std::size_t i = 0; i < y.size(); ++i) {
            const float sum = sums[i] + (bias ? b[i % 21] : 0.0f);
            const double expected = apply(act, sum) + (residual ? r[i] : 0.0f);
            ASSERT_NEAR(
                y[i], expected,
                6e-7 * std::max({1.0, std::fabs(expected), std::fabs(static_cast<double>(sum))}))
                << level.name << " " << kActNames[static_cast<std::size_t>(act)];
          }
          if (!residual) continue;
          in.back() = view(y, {rows, n});  // in place: the residual's buffer takes the result
          Floats in_place = r;
          in.back().data = in_place.data();
          run(*row, &op, in, {view(in_place, {rows, n})}, {2, false});
          ASSERT_TRUE(same_bits(in_place, y));
        }
}

TEST(Matmul, GatedProductIsTheProductOfTwo) {
  for (const Level& level : levels())
    for (const Pair& p : pairs())
      for (const std::int64_t rows : {1, 3, 13}) {
        const Kernel* gated = find_row(level, "gated_linear", p.x, p.w);
        const Kernel* linear = find_row(level, "linear", p.x, p.w);
        if (!gated) continue;
        const std::int64_t n = 90, k = 256;
        Panels gate(p.w, random_weights(p.w, n, k, 61), n, k),
            up(p.w, random_weights(p.w, n, k, 62), n, k);
        Tokens x(p.x, normal(static_cast<std::size_t>(rows * k), 63), k);
        Floats y(static_cast<std::size_t>(rows * n)), u = run_linear(*linear, x, up, 0, rows),
                                                      g(y.size());
        const Linear activated{Act::silu, false, false};
        run(*linear, &activated, {x.view(0, rows), gate.view()}, {view(g, {rows, n})});
        const GatedLinear op{Act::silu};
        run(*gated, &op, {x.view(0, rows), gate.view(), up.view()}, {view(y, {rows, n})},
            {3, false});
        for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], g[i] * u[i]) << text(level, p);
      }
}

TEST(Matmul, RowsMayLieApartAndHaveSeveralAxes) {
  for_each_row([](const Level& level, const Pair& p, const Kernel& row) {
    const std::int64_t n = 20, k = 256, rows = 6, x_gap = 128, y_stride = (n + 5) * 4;
    Panels panels(p.w, random_weights(p.w, n, k, 71), n, k);
    Tokens x(p.x, normal(static_cast<std::size_t>(rows * k), 72), k);
    const Floats expected = run_linear(row, x, panels, 0, rows);
    Data apart(static_cast<std::size_t>(rows * (x.stride() + x_gap)));
    for (std::int64_t m = 0; m < rows; ++m)
      std::memcpy(apart.data() + m * (x.stride() + x_gap), x.data.data() + m * x.stride(),
                  static_cast<std::size_t>(x.stride()));
    Floats y(static_cast<std::size_t>(rows * (n + 5)), 3.0f);
    TensorView xv = view(apart.data(), {2, 3, k}, p.x), yv = view(y, {2, 3, n});
    xv.strides[1] = x.stride() + x_gap, xv.strides[0] = 3 * xv.strides[1];
    yv.strides[1] = y_stride, yv.strides[0] = 3 * y_stride;
    const Linear op{};
    run(row, &op, {xv, panels.view()}, {yv});
    for (std::int64_t m = 0; m < rows; ++m) {
      for (std::int64_t j = 0; j < n; ++j)
        ASSERT_EQ(y[static_cast<std::size_t>(m * (n + 5) + j)],
                  expected[static_cast<std::size_t>(m * n + j)])
            << text(level, p);
      for (std::int64_t j = n; j < n + 5; ++j)
        ASSERT_EQ(y[static_cast<std::size_t>(m * (n + 5) + j)], 3.0f) << text(level, p);
    }
  });
}

TEST(Matmul, NaNReachesItsOwnRowOnly) {
  for_each_row([](const Level& level, const Pair& p, const Kernel& row) {
    const std::int64_t n = 18, k = 256;
    Panels panels(p.w, random_weights(p.w, n, k, 81), n, k);
    for (const std::int64_t rows : {2, 9}) {
      Floats values = normal(static_cast<std::size_t>(rows * k), 82);
      values[static_cast<std::size_t>(k + 77)] = std::numeric_limits<float>::quiet_NaN();
      Tokens x(p.x, values, k);
      const Floats y = run_linear(row, x, panels, 0, rows);
      for (std::int64_t i = 0; i < rows * n; ++i)
        ASSERT_EQ(std::isnan(y[static_cast<std::size_t>(i)]), i / n == 1)
            << text(level, p) << " rows " << rows;
    }
  });
}

// Fault N04: sums of activations kept in half precision became infinite.
TEST(Matmul, LargeActivationsTimesMinimaStayFinite) {
  for (const Level& level : levels())
    for (const DType w : {DType::q4_1, DType::q5_1, DType::q4_K, DType::q5_K, DType::q2_K})
      for (const float value : {2100.0f, -2100.0f, 3e38f / 32})
        for (const std::int64_t rows : {1, 6}) {
          const Kernel* row = find_row(level, "linear", DType::xq8, w);
          if (!row) continue;
          const std::int64_t n = 16, k = info(w).block_elements;
          Data weights = random_weights(w, n, k, 91);
          const int places[] = {w == DType::q2_K ? 80 : 0, w == DType::q2_K ? 82 : 2};
          for (std::int64_t j = 0; j < n; ++j)
            for (int i = 0; i < 2; ++i) {  // small scales: the product itself must be in range
              const std::uint16_t bits = f32_to_f16(i == 0 ? 0.0011f : 0.0023f);
              std::memcpy(weights.data() + j * row_bytes(w, k) + places[i], &bits, 2);
            }
          Panels panels(w, weights, n, k);
          const Floats values(static_cast<std::size_t>(rows * k), value),
              ws = decode_rows(w, weights, k);
          Tokens x(DType::xq8, values, k);
          const Floats y = run_linear(*row, x, panels, 0, rows);
          for (std::int64_t i = 0; i < rows * n; ++i) {
            double exact = 0, size = 0;
            for (std::int64_t c = 0; c < k; ++c) {
              const double term =
                  static_cast<double>(value) * ws[static_cast<std::size_t>(i % n * k + c)];
              exact += term, size += std::fabs(term);
            }
            if (size > 1e38) continue;  // the exact sum leaves the range of f32
            ASSERT_NEAR(y[static_cast<std::size_t>(i)], exact,
                        0.01 * std::fabs(exact) + 1e-5 * size)
                << text(level, {DType::xq8, w}) << " " << value;
          }
        }
}

// Fault N05: from 64 rows on another kernel rounded the activations.
TEST(Matmul, AHugeActivationGivesTheSameBitsInEveryBatch) {
  for_each_row([](const Level& level, const Pair& p, const Kernel& row) {
    const std::int64_t n = 16, k = 256, most = 513;
    Panels panels(p.w, random_weights(p.w, n, k, 95), n, k);
    Floats values = normal(static_cast<std::size_t>(most * k), 96);
    values[100] = 1e5f;
    Tokens x(p.x, values, k);
    const Floats first = run_linear(row, x, panels, 0, 1);
    for (const std::int64_t rows : {2, 31, 32, 63, 64, 65, 127, 128, 129, 512, 513}) {
      const Floats y = run_linear(row, x, panels, 0, rows);
      ASSERT_TRUE(same_bits(Floats(y.begin(), y.begin() + n), first))
          << text(level, p) << " rows " << rows;
    }
  });
}

}  // namespace
}  // namespace rlx::cpu
