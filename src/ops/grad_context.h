// What the grad() of an op sees: its node, the gradient of its results, and a builder for the gradients of its
// operands. Reverse mode (Griewank and Walther, "Evaluating Derivatives", chapter 3): grad() adds, for each operand x,
// the product of the results' gradients with dy/dx.
#pragma once

#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ops/arithmetic.h"

namespace rlx {

/// Gradients are f32 whatever float dtype a value has; so are the operands and results that formulas are written in
/// (a cast is put in where the value has another). One context serves one node.
class GradContext {
 public:
  /// `grads`: of the results in order, an empty Value where nothing arrived. `wanted`: per operand.
  GradContext(Builder& builder, const Node& node, std::vector<Value> results, std::vector<Value> grads,
              std::vector<bool> wanted);

  Builder& b;

  int arity() const { return static_cast<int>(node_.inputs.size()); }
  Value raw(int i) const { return node_.inputs[static_cast<std::size_t>(i)]; }  ///< operand i as it is
  const Shape& shape(int i) const { return b.shape(raw(i)); }
  const Shape& out_shape(int i = 0) const { return b.shape(results_[static_cast<std::size_t>(i)]); }
  Value in(int i) { return f32(raw(i)); }
  Value out(int i = 0) { return f32(results_[static_cast<std::size_t>(i)]); }
  Value raw_out(int i) const { return results_[static_cast<std::size_t>(i)]; }
  /// The gradient of result i, zeros when nothing arrived.
  Value grad(int i = 0);
  bool has_grad(int i) const { return static_cast<bool>(grads_[static_cast<std::size_t>(i)]); }
  /// Whether the gradient of operand i is asked for; add() for another one is ignored.
  bool wants(int i) const { return i >= 0 && i < arity() && wanted_[static_cast<std::size_t>(i)]; }
  /// Adds to the gradient of operand i. A `g` that has more or larger dims than the operand is summed over them: the
  /// operand was broadcast; dims of 1 are repeated.
  void add(int i, Value g);
  /// Operand i (f32) as the start of other ops that give the results: with through(), differentiates those instead.
  Value fresh(int i);
  void through(std::vector<Value> results) { body_ = std::move(results); }
  /// Error(unsupported) when `count` places, of lines joined to one axis, are known to be more than an i32 can number.
  void check_flat(Dim count) const;
  /// Throws Error(unsupported): "op (node): why".
  [[noreturn]] void unsupported(std::string_view why) const;

  // Words of formulas. All operands f32; shapes broadcast.
  Value f32(Value v);
  Value plus(Value x, Value y);
  Value minus(Value x, Value y);
  Value times(Value x, Value y);
  Value over(Value x, Value y);
  Value scaled(Value x, double factor);
  Value unary(UnaryFunction fn, Value x);
  Value square(Value x) { return times(x, x); }
  Value where(Value cond, Value x, Value y);
  Value compare(Relation relation, Value x, Value y);
  /// One value, of the rank of `like` so that it broadcasts to it.
  Value constant(double value, Value like);
  /// The f32 values of 1 where `relation` holds, else 0.
  Value mask(Relation relation, Value x, Value y);
  Value fill(const Shape& shape, double value);
  Value sum(Value x, int axis, bool keep_dims);
  Value mean(Value x, int axis, bool keep_dims);
  Value reshape(Value x, std::span<const Dim> dims);
  Value broadcast_to(Value x, std::span<const Dim> dims);

  /// A value with an axis moved last and the others joined: [lines, n]; and back to the dims of `like`.
  Value as_lines(Value x, int axis);
  Value from_lines(Value lines, const Shape& like, int axis);

  /// What through() was given, and what fresh() of each operand gave; for the driver.
  const std::vector<Value>& body() const { return body_; }
  const std::vector<Value>& starts() const { return starts_; }
  /// The contributions so far, per operand; for the driver.
  const std::vector<std::vector<Value>>& contributions() const { return contributions_; }

 private:
  Value fit(Value g, const Shape& to);

  Node node_;
  std::vector<Value> results_, grads_;
  std::vector<bool> wanted_;
  std::vector<std::vector<Value>> contributions_;
  std::vector<Value> body_, starts_;
};

/// "argmax (%7, in layers.0.attention)": a node in messages.
std::string node_text(const Node& node, std::int32_t index);

}  // namespace rlx
