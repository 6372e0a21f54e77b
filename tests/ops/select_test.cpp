// Gather, scatter, top-k and sort: values worked out by hand, order of ties, indices outside.
#include "ops/select.h"

#include <limits>

#include "ops/support.h"

namespace rlx {
namespace {

constexpr float kSelectNan = std::numeric_limits<float>::quiet_NaN();

// Both results of an op with one operand.
template <typename Op>
std::pair<Tensor, Tensor> run_two(const Op& op, const Tensor& x) {
  Graph graph;
  Builder b(graph);
  const Value y = b(op, b.input("x", x.shape()));
  graph.set_outputs({{"values", y}, {"indices", b.result(y, 1)}});
  const NamedTensor input[] = {{"x", x}};
  auto results = Interpreter(std::move(graph)).run(input);
  return {results[0].tensor, results[1].tensor};
}

TEST(Select, Gather) {
  const Tensor x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_near(run_op(Gather{0}, {x, i32({1, 1, 0})}), {4, 5, 6, 4, 5, 6, 1, 2, 3});
  expect_near(run_op(Gather{-1}, {x, i32({2, 0})}), {3, 1, 6, 4});
  const Tensor pairs =
      Tensor::from({2, 2}, std::span<const std::int32_t>(std::vector<std::int32_t>{0, 1, 2, 0}));
  const Tensor y = run_op(Gather{1}, {x, pairs});
  EXPECT_EQ(y.text(), "f32[2, 2, 2]");
  expect_near(y, {1, 2, 3, 1, 4, 5, 6, 4});
}

TEST(Select, IndicesOutsideAreErrorsOfTheRun) {
  const Tensor x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  for (const std::int32_t bad : {-1, 3}) {
    try {
      run_op(Gather{1}, {x, i32({0, bad})});
      ADD_FAILURE();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
      EXPECT_EQ(
          std::string(e.what()),
          fmt::format("gather: index: expected a value from 0 to 2, found {} at place 1", bad));
    }
    EXPECT_THROW(run_op(ScatterAdd{1, false}, {x, i32({bad}), f32({2, 1}, {0, 0})}), Error);
  }
}

TEST(Select, ScatterAdd) {
  const Tensor x = f32({3, 2}, {1, 2, 3, 4, 5, 6}), updates = f32({3, 2}, {10, 20, 30, 40, 50, 60});
  expect_near(run_op(ScatterAdd{0, false}, {x, i32({2, 0, 2}), updates}), {31, 42, 3, 4, 65, 86});
  expect_near(run_op(ScatterAdd{0, true}, {x, i32({2, 0, 2}), updates}), {30, 40, 3, 4, 50, 60});
  expect_near(run_op(ScatterAdd{-1, false}, {x, i32({1}), f32({3, 1}, {7, 8, 9})}),
              {1, 9, 3, 12, 5, 15});
  expect_near(run_op(ScatterAdd{0, false}, {x, i32({}), f32({0, 2}, {})}), {1, 2, 3, 4, 5, 6});
}

TEST(Select, TopK) {
  const Tensor x = f32({2, 4}, {3, 9, 9, 1, -1, -3, -2, -3});
  const auto [values, indices] = run_two(TopK{.k = 3}, x);
  EXPECT_EQ(indices.text(), "i32[2, 3]");
  expect_near(values, {9, 9, 3, -1, -2, -3});
  expect_near(indices, {1, 2, 0, 0, 2, 1});  // of equal values the lower index first
  const auto [low, low_at] = run_two(TopK{.k = 2, .largest = false}, x);
  expect_near(low, {1, 3, -3, -3});
  expect_near(low_at, {3, 0, 1, 3});
  const auto [down, down_at] = run_two(TopK{.k = 1, .axis = 0}, x);
  expect_near(down, {3, 9, 9, 1});
  expect_near(down_at, {0, 0, 0, 0});
  expect_near(run_two(TopK{.k = 2}, f32({3}, {1, kSelectNan, 2})).second, {1, 2});
  EXPECT_EQ(run_two(TopK{.k = 0}, x).first.text(), "f32[2, 0]");
}

TEST(Select, SortIsStable) {
  const Tensor x = f32({6}, {2, 1, 2, kSelectNan, 1, 0});
  expect_near(run_two(Sort{}, x).second, {5, 1, 4, 0, 2, 3});
  expect_near(run_two(Sort{-1, true}, x).second, {3, 0, 2, 1, 4, 5});
  const auto [values, indices] = run_two(Sort{0, false}, f32({2, 2}, {3, 1, 2, 5}));
  expect_near(values, {2, 1, 3, 5});
  expect_near(indices, {1, 0, 0, 1});
}

TEST(Select, Messages) {
  EXPECT_EQ(shape_error(Gather{0}, {"f32[5, 64]", "f32[7]"}),
            "gather: index: expected i32, found f32[7]");
  EXPECT_EQ(shape_error(Gather{0}, {"f32[1, 2, 3, 4, 5]", "i32[2, 2, 2]"}),
            "gather: x [1, 2, 3, 4, 5] and index [2, 2, 2] give 7 dims: expected at most 6");
  EXPECT_EQ(shape_error(ScatterAdd{0, false}, {"f32[5, 64]", "i32[7]", "f32[7, 63]"}),
            "scatter_add: updates [7, 63]: expected [7, 64] for index [7] in axis 0 of x [5, 64]");
  EXPECT_EQ(shape_error(TopK{.k = 65}, {"f32[5, 64]"}),
            "top_k: k: expected at most the 64 values of axis -1 of x [5, 64], found 65");
  EXPECT_EQ(shape_error(TopK{.k = -1}, {"f32[5, 64]"}),
            "top_k: k: expected a value from 0 to 2147483647, found -1");
  EXPECT_EQ(shape_error(Sort{.axis = -3}, {"f32[5, 64]"}),
            "sort: axis: expected a value from -2 to 1 for x [5, 64], found -3");
}

// A symbolic size decides about k when it is bound.
TEST(Select, TopKIsCheckedWhenBound) {
  Graph graph;
  Builder b(graph);
  graph.set_outputs(
      {{"y", b(TopK{.k = 4, .axis = 0}, b.input("x", Shape::parse("f32[rows, 3]")))}});
  EXPECT_NO_THROW(bind(graph, {{sym::rows, 4}}));
  EXPECT_THROW(bind(graph, {{sym::rows, 3}}), Error);
}

}  // namespace
}  // namespace rlx
