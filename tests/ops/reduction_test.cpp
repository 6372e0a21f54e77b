// Reductions, softmax, cumulative ops and layer norm: values worked out by hand, and messages.
#include "ops/reduction.h"

#include <limits>

#include "ops/support.h"

namespace rlx {
namespace {

Tensor two_by_three() { return f32({2, 3}, {1, -2, 4, 3, 5, -6}); }

TEST(Reduction, EveryKindAlongEveryAxis) {
  const std::vector<std::pair<Reduction, std::vector<double>>> by_row = {
      {Reduction::sum, {3, 2}},
      {Reduction::mean, {1, 2.0 / 3}},
      {Reduction::max, {4, 5}},
      {Reduction::min, {-2, -6}},
      {Reduction::prod, {-8, -90}}};
  for (const auto& [kind, expected] : by_row)
    expect_near(run_op(Reduce{kind, -1, false}, {two_by_three()}), expected);
  expect_near(run_op(Reduce{Reduction::sum, 0, false}, {two_by_three()}), {4, 3, -2});
  EXPECT_EQ(run_op(Reduce{Reduction::sum, 0, false}, {two_by_three()}).text(), "f32[3]");
  EXPECT_EQ(run_op(Reduce{Reduction::sum, 0, true}, {two_by_three()}).text(), "f32[1, 3]");
  EXPECT_EQ(run_op(Reduce{Reduction::max, 0, false}, {f32({3}, {1, 7, 2})}).text(), "f32[]");
}

TEST(Reduction, OfNoValues) {
  const Tensor none = f32({0, 2}, {});
  expect_near(run_op(Reduce{Reduction::sum, 0, false}, {none}), {0, 0});
  expect_near(run_op(Reduce{Reduction::prod, 0, false}, {none}), {1, 1});
  EXPECT_EQ(shape_error(Reduce{Reduction::max, 0, false}, {"f32[0, 2]"}),
            "reduce: axis: max of no values in axis 0 of x [0, 2]");
}

TEST(Reduction, NanStays) {
  for (const Reduction kind :
       {Reduction::sum, Reduction::mean, Reduction::max, Reduction::min, Reduction::prod})
    for (const auto& values : {std::vector<float>{kNan, 1, 2}, {1, kNan, 2}, {1, 2, kNan}})
      EXPECT_TRUE(std::isnan(run_op(Reduce{kind, 0, false}, {f32({3}, values)}).to_floats()[0]));
}

TEST(Reduction, SumsOfIntegersWrap) {
  const Tensor x = i32({INT32_MAX, INT32_MAX, INT32_MAX, 5});
  const Tensor y = run_op(Reduce{Reduction::sum, 0, false}, {x});
  EXPECT_EQ(y.as<std::int32_t>()[0], static_cast<std::int32_t>(3u * INT32_MAX + 5u));
  const Tensor c = run_op(Cumulative{.axis = 0}, {x});
  EXPECT_EQ(c.as<std::int32_t>()[1], -2);
  EXPECT_EQ(c.as<std::int32_t>()[3], static_cast<std::int32_t>(3u * INT32_MAX + 5u));
}

TEST(Reduction, Cumulative) {
  const Tensor x = f32({4}, {2, 3, -1, 4});
  const auto run = [&](Reduction kind, bool exclusive, bool reverse) {
    return run_op(Cumulative{kind, 0, exclusive, reverse}, {x});
  };
  expect_near(run(Reduction::sum, false, false), {2, 5, 4, 8});
  expect_near(run(Reduction::sum, true, false), {0, 2, 5, 4});
  expect_near(run(Reduction::sum, false, true), {8, 6, 3, 4});
  expect_near(run(Reduction::sum, true, true), {6, 3, 4, 0});
  expect_near(run(Reduction::prod, false, false), {2, 6, -6, -24});
  expect_near(run(Reduction::max, false, false), {2, 3, 3, 4});
  expect_near(run(Reduction::min, false, true), {-1, -1, -1, 4});
  expect_near(run(Reduction::max, true, false), {-INFINITY, 2, 3, 3});
  expect_near(run_op(Cumulative{.axis = 0}, {two_by_three()}), {1, -2, 4, 4, 3, -2});
}

TEST(Reduction, Softmax) {
  expect_near(run_op(Softmax{}, {f32({1, 3}, {1, 2, 3})}),
              {0.0900305732, 0.2447284711, 0.6652409558});
  // exp(1000) is infinite; the largest value goes out first.
  expect_near(run_op(Softmax{}, {f32({2}, {1000, 1000})}), {0.5, 0.5});
  expect_near(run_op(Softmax{.axis = 0}, {f32({2, 2}, {0, -kInf, 0, 0})}), {0.5, 0, 0.5, 1});
  for (const auto& line : {std::vector<float>{-kInf, -kInf}, {kInf, 0}, {kNan, 0}})
    EXPECT_TRUE(std::isnan(run_op(Softmax{}, {f32({2}, line)}).to_floats()[0])) << line[0];
}

TEST(Reduction, LogSoftmax) {
  expect_near(run_op(LogSoftmax{}, {f32({3}, {1, 2, 3})}),
              {-2.4076059644, -1.4076059644, -0.4076059644});
  // The logarithm of a softmax in float would be -inf.
  expect_near(run_op(LogSoftmax{}, {f32({2}, {-500, 500})}), {-1000, 0});
}

TEST(Reduction, Argmax) {
  expect_near(run_op(Argmax{}, {two_by_three()}), {2, 1});
  expect_near(run_op(Argmax{0, true}, {two_by_three()}), {1, 1, 0});
  const Tensor first = run_op(Argmax{}, {f32({4}, {1, 7, 7, 3})});
  EXPECT_EQ(first.text(), "i32[]");
  expect_near(first, {1});
  expect_near(run_op(Argmax{}, {f32({4}, {1, kNan, kInf, kNan})}), {1});
  expect_near(run_op(Argmax{}, {f32({2}, {-kInf, -kInf})}), {0});
  EXPECT_EQ(shape_error(Argmax{}, {"f32[5, 0]"}),
            "argmax: axis: argmax of no values in axis 1 of x [5, 0]");
}

TEST(Reduction, LayerNorm) {
  // mean 2, variance 1: with eps = 3 the root is 2.
  expect_near(
      run_op(LayerNorm{.eps = 3}, {f32({1, 2}, {1, 3}), f32({2}, {2, 4}), f32({2}, {0, 10})}),
      {-1, 12});
  expect_near(run_op(LayerNorm{.eps = 3, .bias = false}, {f32({1, 2}, {1, 3}), f32({2}, {2, 4})}),
              {-1, 2});
  // The variance of values far from 0 comes from their differences.
  expect_near(run_op(LayerNorm{.eps = 0, .bias = false},
                     {f32({1, 2}, {16777214, 16777216}), f32({2}, {1, 1})}),
              {-1, 1});
}

TEST(Reduction, Messages) {
  EXPECT_EQ(shape_error(Softmax{.axis = 2}, {"f32[5, 64]"}),
            "softmax: axis: expected a value from -2 to 1 for x [5, 64], found 2");
  EXPECT_EQ(shape_error(Softmax{}, {"f32[]"}),
            "softmax: x: expected at least one dim, found f32[]");
  EXPECT_EQ(shape_error(Reduce{Reduction::mean, -1, false}, {"i32[5]"}),
            "reduce: kind: expected sum, max or min for i32, found mean");
  EXPECT_EQ(shape_error(Cumulative{.kind = Reduction::mean}, {"f32[5]"}),
            "cumulative: kind: expected sum, max, min or prod, found mean");
  EXPECT_EQ(shape_error(LayerNorm{}, {"f32[5, 64]", "f32[64]"}),
            "layer_norm: expected 3 operands (x, weight, bias), found 2");
  EXPECT_EQ(shape_error(LayerNorm{}, {"f32[5, 64]", "f32[64]", "f32[63]"}),
            "layer_norm: bias: expected the columns of x = 64 values, found f32[63]");
  EXPECT_EQ(shape_error(LayerNorm{.eps = -1}, {"f32[5, 64]", "f32[64]", "f32[64]"}),
            "layer_norm: eps: expected a value of at least 0, found -1");
}

}  // namespace
}  // namespace rlx
