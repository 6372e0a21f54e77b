// A graph under construction by hand: what people write when they have no checkpoint (compiler.md, section 13).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace rlx {

/// Owns a HIR graph and its builder. Shape errors are thrown at the line that makes them.
class HirModule {
 public:
  explicit HirModule(std::string name) : graph_(std::move(name)) {}

  Value input(std::string name, const Shape& shape) { return builder().input(std::move(name), shape); }
  Value param(std::string name, const Shape& shape) { return builder().param(std::move(name), shape); }
  Value state(std::string name, const Shape& shape) { return builder().state(std::move(name), shape); }

  /// y = x w. x: f32[..., k]; w: [k, n], as mathematics writes it. Checkpoints store [n, k]: linear_stored.
  Value linear(Value x, Value w);
  /// y = x w^T. w: [n, k] of any storage type.
  Value linear_stored(Value x, Value w);
  /// Any op, as Builder: `hir(RmsNorm{.eps = 1e-5f}, x, weight)`.
  template <typename Op, typename... Values>
  Value operator()(const Op& op, Values... operands) {
    return builder()(op, operands...);
  }

  /// Names the results "output", or "output.0", "output.1" and so on when there are several.
  void set_outputs(const std::vector<Value>& values);
  void set_outputs(std::vector<Output> outputs) { graph_.set_outputs(std::move(outputs)); }

  const Shape& shape(Value v) const { return graph_.shape(v); }
  const Graph& graph() const& { return graph_; }
  Graph graph() && { return std::move(graph_); }

 private:
  Builder builder() { return Builder(graph_); }

  Graph graph_;
};

}  // namespace rlx
