// Element-wise kernels: sums, products and casts bit by bit, functions within the limits of quality.md, 4.3.
#include <functional>
#include <limits>

#include "backends/kernel_run.h"
#include "ops/elementwise.h"
#include "tensor/quant/codec.h"

namespace rlx::cpu {
namespace {

TEST(AddMul, EveryBroadcastIsExact) {
  using Dims = std::vector<std::int64_t>;
  const std::tuple<Dims, Dims, Dims> cases[] = {
      {{7}, {7}, {7}},          {{3, 37}, {3, 37}, {3, 37}}, {{3, 37}, {37}, {3, 37}},       {{37}, {3, 37}, {3, 37}},
      {{5, 16}, {1}, {5, 16}},  {{1}, {5, 16}, {5, 16}},     {{4, 1}, {1, 9}, {4, 9}},
          {{2, 3, 20}, {3, 1}, {2, 3, 20}},
      {{0, 8}, {8}, {0, 8}},    {{1}, {1}, {1}},             {{2, 1, 33}, {1, 4, 1}, {2, 4, 33}},
          {{4, 1}, {4, 1}, {4, 1}},
  };
  const auto count = [](const Dims& d) {
    std::size_t n = 1;
    for (const auto x : d) n *= static_cast<std::size_t>(x);
    return n;
  };
  // Index into an operand of the element with the flat index `at` of the result.
  const auto source = [](std::size_t at, const Dims& operand, const Dims& result) {
    std::size_t index = 0, step = 1;
    for (std::size_t i = 0; i < operand.size(); ++i) {
      const auto size = static_cast<std::size_t>(result[result.size() - 1 - i]),
          own = static_cast<std::size_t>(operand[operand.size() - 1 - i]);
      index += own == 1 ? 0 : at % size * step;
      step *= own;
      at /= size;
    }
    return index;
  };
  for (const auto& [da, db, dy] : cases)
    for (const std::string_view name : {"add", "mul"})
      for (const Kernel& k : rows(name)) {
        const Add op;
        Floats a = normal(count(da), 1), b = normal(count(db), 2), y(count(dy));
        run(k, &op, {view(a, da), view(b, db)}, {view(y, dy)}, {.threads = 3});
        for (std::size_t i = 0; i < y.size(); ++i) {
          const float x = a[source(i, da, dy)], z = b[source(i, db, dy)];
          ASSERT_EQ(y[i], name == "add" ? x + z : x * z) << k.name << " at " << i;
        }
      }
}

// Runs a kernel over x and checks each value against f in double.
void expect_values(const Kernel& k, const void* op, Floats x, const std::function<double(double)>& f,
                   const std::function<double(double, double)>& limit) {
  Floats y(x.size());
  const auto n = static_cast<std::int64_t>(x.size());
  run(k, op, {view(x, {n})}, {view(y, {n})}, {.threads = 2});
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = f(x[i]);
    ASSERT_LE(std::fabs(y[i] - expected), limit(x[i], expected)) << k.name << " x " << x[i]
        << " found " << y[i] << " expected " << expected;
  }
}

Floats spread(float least, float most, int n) {
  Floats x;
  for (int i = 0; i <= n; ++i) x.push_back(least + (most - least) * static_cast<float>(i) / static_cast<float>(n));
  return x;
}

TEST(Activation, WithinTheLimitOfItsReference) {
  for (const Act act : {Act::none, Act::silu, Act::gelu_tanh, Act::gelu, Act::relu})
    for (const Kernel& k : rows("activation")) {
      const Activation op{act};
      const auto f = [act](double x) {
        switch (act) {
          case Act::silu: return x / (1 + std::exp(-x));
          case Act::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
          case Act::gelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
          case Act::relu: return std::max(x, 0.0);
          default: return x;
        }
      };
      const auto limit = [](double x, double) { return 4e-7 * std::max(1.0, std::fabs(x)); };
      expect_values(k, &op, spread(-12, 12, 40001), f, limit);
      expect_values(k, &op, spread(-300, 300, 10007), f, limit);
      expect_values(k, &op, {0.0f, -0.0f, 1e-38f, -1e-42f, 1e30f, -1e30f, 3e38f, -3e38f}, f, limit);
    }
}

double ulps(double expected, double count) {
  return count * std::max(std::ldexp(1.0, std::ilogb(expected) - 23), std::ldexp(1.0, -149));
}

// silu(x) of a very negative x is x * exp(x), cap 1 gives tanh alone.
TEST(Activation, ExpAndTanhWithinFourUnits) {
  for (const Kernel& k : rows("activation")) {
    const Activation op{Act::silu};
    expect_values(k, &op, spread(-87, -20, 50001), [](double x) { return x / (1 + std::exp(-x)); },
                  [](double, double y) { return ulps(y, 5); });
  }
  for (const Kernel& k : rows("softcap")) {
    const Softcap op{1.0f};
    const auto limit = [](double, double y) { return ulps(y == 0 ? 1e-300 : y, 4); };
    expect_values(k, &op, spread(-12, 12, 60001), [](double x) { return std::tanh(x); }, limit);
    expect_values(k, &op, spread(-1e-3f, 1e-3f, 20001), [](double x) { return std::tanh(x); }, limit);
  }
}

TEST(Softcap, OfLogits) {
  for (const Kernel& k : rows("softcap")) {
    const Softcap op{30.0f};
    expect_values(k, &op, spread(-600, 600, 9999), [](double x) { return 30 * std::tanh(x / 30); },
                  [](double, double y) { return ulps(y == 0 ? 1e-300 : y, 6); });
  }
}

TEST(Scale, IsExact) {
  for (const Kernel& k : rows("scale")) {
    const Scale op{0.3f};
    Floats x = normal(101, 3), y(101);
    run(k, &op, {view(x, {101})}, {view(y, {101})}, {.threads = 4});
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], x[i] * 0.3f);
  }
}

TEST(Elementwise, NanStaysNan) {
  Floats x(19, std::numeric_limits<float>::quiet_NaN()), y(19);
  const auto expect_nan = [&](const Kernel& k, const void* op) {
    std::fill(y.begin(), y.end(), 0.0f);
    run(k, op, {view(x, {19})}, {view(y, {19})});
    for (const float v : y) EXPECT_TRUE(std::isnan(v)) << k.name;
  };
  for (const Act act : {Act::none, Act::silu, Act::gelu_tanh, Act::gelu, Act::relu})
    for (const Kernel& k : rows("activation")) {
      const Activation op{act};
      expect_nan(k, &op);
    }
  const Softcap cap{50.0f};
  for (const Kernel& k : rows("softcap")) expect_nan(k, &cap);
}

TEST(Cast, EqualsTheCodec) {
  Floats x = normal(1003, 4, 100.0f);
  const float inf = std::numeric_limits<float>::infinity();
  const Floats special = {0.0f, -0.0f, inf, -inf, 65504.0f, 65519.0f, 65520.0f, 1e-7f, 6e-8f,
      2.9e-8f, 1e-40f, 3.4e38f, 1.00048828125f};
  std::copy(special.begin(), special.end(), x.begin());
  for (const DType half : {DType::f16, DType::bf16})
    for (const Kernel& k : rows("cast")) {
      std::vector<std::uint16_t> y(x.size());
      Floats back(x.size());
      const Cast down{half}, up{DType::f32};
      run(k, &down, {view(x, {17, 59})}, {view(y.data(), {17, 59}, half)}, {.threads = 3});
      run(k, &up, {view(y.data(), {1003}, half)}, {view(back, {1003})});
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(y[i], half == DType::f16 ? f32_to_f16(x[i]) : f32_to_bf16(x[i])) << k.name << " " << x[i];
        ASSERT_EQ(back[i], half == DType::f16 ? f16_to_f32(y[i]) : bf16_to_f32(y[i])) << k.name;
      }
    }
}

}  // namespace
}  // namespace rlx::cpu
