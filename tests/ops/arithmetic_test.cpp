// Arithmetic, comparison, choice and unary functions: values worked out by hand, and messages.
#include "ops/arithmetic.h"

#include <limits>

#include "ops/support.h"

namespace rlx {
namespace {

TEST(Arithmetic, BroadcastsAsNumPy) {
  expect_near(run_op(Sub{}, {f32({2, 2}, {1, 2, 3, 4}), f32({2}, {10, 20})}), {-9, -18, -7, -16});
  expect_near(run_op(Div{}, {f32({2, 1}, {1, 3}), f32({2}, {2, 4})}), {0.5, 0.25, 1.5, 0.75});
  expect_near(run_op(Pow{}, {f32({3}, {2, -2, 4}), f32({3}, {10, 3, 0.5f})}), {1024, -8, 2});
  expect_near(run_op(Maximum{}, {f32({3}, {1, -2, 3}), f32({}, {0.5f})}), {1, 0.5, 3});
  expect_near(run_op(Minimum{}, {f32({3}, {1, -2, 3}), f32({}, {0.5f})}), {0.5, -2, 0.5});
}

TEST(Arithmetic, EdgesOfFloats) {
  const auto div = run_op(Div{}, {f32({3}, {1, -1, 0}), f32({1}, {0})}).to_floats();
  EXPECT_EQ(div[0], kInf);
  EXPECT_EQ(div[1], -kInf);
  EXPECT_TRUE(std::isnan(div[2]));
  for (const auto& [x, y] : {std::pair{kNan, 1.0f}, {1.0f, kNan}}) {
    EXPECT_TRUE(std::isnan(run_op(Maximum{}, {f32({1}, {x}), f32({1}, {y})}).to_floats()[0]));
    EXPECT_TRUE(std::isnan(run_op(Minimum{}, {f32({1}, {x}), f32({1}, {y})}).to_floats()[0]));
  }
  EXPECT_TRUE(std::isnan(run_op(Clamp{-1, 1}, {f32({1}, {kNan})}).to_floats()[0]));
  expect_near(run_op(Clamp{-1, 1}, {f32({4}, {-kInf, -0.5f, 0.5f, 7})}), {-1, -0.5, 0.5, 1});
}

TEST(Arithmetic, IntegersWrap) {
  const Tensor y = run_op(Sub{}, {i32({INT32_MIN, 5, 2000000011}), i32({1, 7, 2000000000})});
  EXPECT_EQ(y.dtype(), DType::i32);
  EXPECT_EQ(y.as<std::int32_t>()[0], INT32_MAX);
  EXPECT_EQ(y.as<std::int32_t>()[1], -2);
  EXPECT_EQ(y.as<std::int32_t>()[2], 11);  // a float would have lost it
}

TEST(Arithmetic, CompareGivesBooleans) {
  const std::vector<Tensor> pair = {f32({4}, {1, 2, 3, kNan}), f32({1}, {2})};
  const std::vector<std::pair<Relation, std::vector<double>>> table = {
      {Relation::eq, {0, 1, 0, 0}}, {Relation::ne, {1, 0, 1, 1}}, {Relation::lt, {1, 0, 0, 0}},
      {Relation::le, {1, 1, 0, 0}}, {Relation::gt, {0, 0, 1, 0}}, {Relation::ge, {0, 1, 1, 0}}};
  for (const auto& [relation, expected] : table) {
    const Tensor y = run_op(Compare{relation}, pair);
    EXPECT_EQ(y.dtype(), DType::boolean);
    expect_near(y, expected);
  }
  expect_near(run_op(Compare{Relation::gt}, {i32({2000000001, 5}), i32({2000000000, 5})}), {1, 0});
}

TEST(Arithmetic, WhereChooses) {
  const Tensor mask = run_op(Compare{Relation::lt}, {f32({3}, {1, 5, 2}), f32({}, {3})});
  expect_near(run_op(Where{}, {mask, f32({2, 1}, {10, 20}), f32({3}, {1, 2, 3})}),
              {10, 2, 10, 20, 2, 20});
  // The value that is not chosen does not matter.
  expect_near(run_op(Where{}, {i32({0, -7}), f32({2}, {kNan, 2}), f32({2}, {1, kNan})}), {1, 2});
}

TEST(Arithmetic, UnaryFunctions) {
  const auto at = [](UnaryFunction fn, float x) {
    return double{run_op(Unary{fn}, {f32({1}, {x})}).to_floats()[0]};
  };
  EXPECT_NEAR(at(UnaryFunction::exp, 1), 2.7182818284590452, 1e-6);
  EXPECT_NEAR(at(UnaryFunction::log, 10), 2.3025850929940457, 1e-6);
  EXPECT_NEAR(at(UnaryFunction::rsqrt, 16), 0.25, 0);
  EXPECT_NEAR(at(UnaryFunction::reciprocal, -8), -0.125, 0);
  EXPECT_NEAR(at(UnaryFunction::sin, 0.5f), 0.479425538604203, 1e-7);
  EXPECT_NEAR(at(UnaryFunction::cos, 0.5f), 0.877582561890373, 1e-7);
  EXPECT_NEAR(at(UnaryFunction::tanh, 0.5f), 0.46211715726001, 1e-7);
  EXPECT_NEAR(at(UnaryFunction::erf, 1), 0.842700792949715, 1e-7);
  EXPECT_NEAR(at(UnaryFunction::sigmoid, 1), 0.7310585786300049, 1e-7);
  EXPECT_NEAR(at(UnaryFunction::softplus, 0), 0.6931471805599453, 1e-7);
  EXPECT_EQ(at(UnaryFunction::softplus, 1000), 1000);  // exp(1000) is infinite
  EXPECT_EQ(at(UnaryFunction::softplus, -1000), 0);
  EXPECT_EQ(at(UnaryFunction::sign, -3), -1);
  EXPECT_EQ(at(UnaryFunction::sign, 0), 0);
  EXPECT_EQ(at(UnaryFunction::round, 2.5f), 2);  // halves to even
  EXPECT_EQ(at(UnaryFunction::round, 3.5f), 4);
  EXPECT_EQ(at(UnaryFunction::floor, -1.5f), -2);
  EXPECT_EQ(at(UnaryFunction::ceil, -1.5f), -1);
  EXPECT_EQ(at(UnaryFunction::abs, -1.5f), 1.5);
  EXPECT_EQ(at(UnaryFunction::neg, -1.5f), 1.5);
  EXPECT_TRUE(std::isnan(at(UnaryFunction::sqrt, -1)));
  for (std::size_t i = 0; i < kUnaryNames.size(); ++i)
    EXPECT_TRUE(std::isnan(at(static_cast<UnaryFunction>(i), kNan))) << kUnaryNames[i];
}

TEST(Arithmetic, Messages) {
  EXPECT_EQ(shape_error(Sub{}, {"f32[5, 64]", "f32[63]"}),
            "sub: a [5, 64] and b [63] do not broadcast: 64 and 63 differ");
  EXPECT_EQ(shape_error(Sub{}, {"i32[5]", "f32[5]"}), "sub: b: expected i32, found f32[5]");
  EXPECT_EQ(shape_error(Div{}, {"i32[5]", "i32[5]"}),
            "div: a: expected f32 or f16 or bf16, found i32[5]");
  EXPECT_EQ(shape_error(Maximum{}, {"f32[rows, 4]", "f32[rows + 2, 4]"}),
            "maximum: a [rows, 4] and b [rows + 2, 4] do not broadcast: rows and rows + 2 differ");
  EXPECT_EQ(shape_error(Where{}, {"f32[5]", "f32[5]", "f32[5]"}),
            "where: cond: expected boolean or i32, found f32[5]");
  EXPECT_EQ(shape_error(Where{}, {"boolean[4]", "f32[2, 1]", "f32[5]"}),
            "where: the shape of a and b [2, 5] and cond [4] do not broadcast: 5 and 4 differ");
  EXPECT_EQ(shape_error(Clamp{2, 1}, {"f32[5]"}), "clamp: low: expected at most high = 1, found 2");
  EXPECT_EQ(shape_error(Clamp{kNan, 1}, {"f32[5]"}),
            "clamp: low: expected at most high = 1, found nan");
  EXPECT_EQ(shape_error(Unary{}, {"q4_0[5, 32]"}),
            "unary: x: expected f32 or f16 or bf16, found q4_0[5, 32]");
}

}  // namespace
}  // namespace rlx
