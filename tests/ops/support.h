// Short words for the tests of ops: one op on literal values, and the message of an inference that
// fails.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ops/interpret.h"

namespace rlx {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

inline Tensor f32(std::vector<std::int64_t> dims, std::vector<float> values) {
  return Tensor::from(std::move(dims), std::span<const float>(values));
}
inline Tensor i32(std::vector<std::int32_t> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return Tensor::from({n}, std::span<const std::int32_t>(values));
}

/// Result 0 of an op without states.
template <typename Op>
Tensor run_op(const Op& op, const std::vector<Tensor>& operands) {
  Graph graph;
  Builder b(graph);
  std::vector<Value> values;
  std::vector<NamedTensor> named;
  for (const Tensor& t : operands) {
    named.push_back({fmt::format("operand{}", values.size()), t});
    values.push_back(b.input(named.back().name, t.shape()));
  }
  graph.set_outputs({{"y", b.emit(op, values)}});
  return Interpreter(std::move(graph)).run(named)[0].tensor;
}

/// The message of the shape error that an op gives for operands of these shapes ("f32[5, 64]",
/// "kv<f16>[2, 64]").
template <typename Op>
std::string shape_error(const Op& op, const std::vector<std::string>& shapes) {
  Graph graph;
  Builder b(graph);
  std::vector<Value> values;
  for (const std::string& text : shapes) {
    const Shape shape = Shape::parse(text);
    const std::string source = fmt::format("operand{}", values.size());
    values.push_back(shape.is_state() ? b.state(source, shape) : b.input(source, shape));
  }
  try {
    b.emit(op, values);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::shape);
    return e.what();
  }
  return "no error";
}

inline void expect_near(const Tensor& found, const std::vector<double>& expected,
                        double tolerance = 1e-6) {
  const std::vector<float> values = found.to_floats();
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    if (double{values[i]} != expected[i]) {  // infinities have no difference
      EXPECT_NEAR(double{values[i]}, expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
          << "value " << i;
    }
}

}  // namespace rlx
