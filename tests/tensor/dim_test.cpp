// Symbolic sizes: equality is semantic, text round trips, errors name the symbol.
#include "tensor/dim.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "base/error.h"
#include "tensor/shape.h"

namespace rlx {
namespace {

const Dim rows(sym::rows), batch(sym::batch);

TEST(Dim, EqualPolynomialsHaveEqualHandles) {
  EXPECT_EQ((rows + Dim(1)) * (rows - Dim(1)), rows * rows - Dim(1));
  EXPECT_EQ(rows * batch, batch * rows);
  EXPECT_EQ(rows - rows, Dim(0));
  EXPECT_EQ(Dim(3) * rows + rows, Dim(4) * rows);
  EXPECT_FALSE(rows == batch);
}

TEST(Dim, CeilDivIdentitiesHold) {
  EXPECT_EQ(ceil_div(rows, 1), rows);
  EXPECT_EQ(ceil_div(Dim(7), 4), Dim(2));
  EXPECT_EQ(ceil_div(Dim(4) * rows, 4), rows);
  EXPECT_EQ(ceil_div(rows + Dim(8) * batch, 4), ceil_div(rows, 4) + Dim(2) * batch);
  EXPECT_EQ(ceil_div(Dim(2) * rows + Dim(1), 4), ceil_div(rows + Dim(1), 2));
  EXPECT_EQ(ceil_div(ceil_div(rows, 4), 8), ceil_div(rows, 32));
  EXPECT_EQ(ceil_div(ceil_div(rows, 4) + Dim(3), 8), ceil_div(rows + Dim(12), 32));
}

// A random polynomial with ceil_div terms, and its value by plain arithmetic.
struct Random {
  std::mt19937 engine{3};
  std::int64_t r = 0, b = 0;

  std::pair<Dim, std::int64_t> make(int depth) {
    switch (engine() % (depth > 0 ? 6u : 3u)) {
      case 0: {
        const auto n = static_cast<std::int64_t>(engine() % 20);
        return {Dim(n), n};
      }
      case 1:
        return {rows, r};
      case 2:
        return {batch, b};
      case 3:
        return combine(
            depth, [](Dim x, Dim y) { return x + y; }, [](auto x, auto y) { return x + y; });
      case 4:
        return combine(
            depth, [](Dim x, Dim y) { return x * y; }, [](auto x, auto y) { return x * y; });
      default: {
        const auto [d, v] = make(depth - 1);
        const auto by = static_cast<std::int64_t>(1 + engine() % 9);
        return {ceil_div(d, by), (v + by - 1) / by};
      }
    }
  }
  template <typename F, typename G>
  std::pair<Dim, std::int64_t> combine(int depth, F on_dims, G on_values) {
    const auto [x, vx] = make(depth - 1);
    const auto [y, vy] = make(depth - 1);
    return {on_dims(x, y), on_values(vx, vy)};
  }
};

TEST(Dim, TenThousandRandomSizesEvaluateAndReadBack) {
  Random random;
  for (int i = 0; i < 10000; ++i) {
    random.r = static_cast<std::int64_t>(random.engine() % 50);
    random.b = static_cast<std::int64_t>(random.engine() % 7);
    const auto [d, value] = random.make(4);
    const DimBinding binding{{sym::rows, random.r}, {sym::batch, random.b}};
    ASSERT_EQ(d.evaluate(binding), value) << d.text() << " under " << binding.text();
    ASSERT_EQ(Dim::parse(d.text()), d) << d.text();
    ASSERT_EQ(d.bind({{sym::rows, random.r}}).evaluate({{sym::batch, random.b}}), value)
        << d.text();
  }
}

void expect_error(const std::function<void()>& f, const std::string& message) {
  try {
    f();
    FAIL() << "accepted: " << message;
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()), message);
  }
}

TEST(DimErrors, NameTheSymbolOrTheLimit) {
  expect_error([] { static_cast<void>((rows + Dim(1)).evaluate({})); },
               "size rows + 1: the symbol \"rows\" is not bound");
  expect_error(
      [] {
        static_cast<void>((rows - Dim(9)).evaluate({{sym::rows, 3}}));
      },
      "size rows - 9 is negative (-6) under rows=3");
  expect_error([] { static_cast<void>(Dim(std::int64_t{1} << 62) * Dim(std::int64_t{4})); },
               "a size expression does not fit in 64 bits");
  expect_error([] { static_cast<void>(ceil_div(rows, 0)); },
               "ceil_div: expected a divisor of at least 1, found 0");
  expect_error([] { static_cast<void>(Symbol::named("Rows")); },
               "\"Rows\" is no name of a symbol: expected [a-z_][a-z0-9_]*");
  expect_error(
      [] {
        DimBinding b{{sym::rows, -1}};
      },
      "symbol \"rows\": expected a size of at least 0, found -1");
}

TEST(DimBinding, OrderOfInsertionDoesNotCount) {
  const DimBinding a{{sym::rows, 4}, {sym::batch, 2}}, b{{sym::batch, 2}, {sym::rows, 4}};
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.digest(), b.digest());
  EXPECT_FALSE(a.digest() == DimBinding({{sym::rows, 5}, {sym::batch, 2}}).digest());
  EXPECT_EQ(DimBinding::batch_seq(2, 128).get(sym::rows), 256);
}

TEST(ShapeText, RoundTrips) {
  const Shape shapes[] = {Shape({rows, 576}, DType::f32),
                          Shape({ceil_div(rows, 4) + Dim(1), 8}, DType::bf16),
                          Shape({576, 576}, DType::q4_K).with(Layout::p16),
                          Shape::kv_state(3, 64, DType::f16),
                          Shape::page_table(),
                          Shape({}, DType::i64)};
  for (const Shape& s : shapes) EXPECT_EQ(Shape::parse(s.text()), s) << s.text();
}

}  // namespace
}  // namespace rlx
