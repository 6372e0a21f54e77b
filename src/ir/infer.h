// Symbolic shape inference: what an op's infer() sees. Sizes are Dim expressions; what cannot be
// decided becomes a check that is evaluated when the symbols are bound.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "ir/op.h"

namespace rlx {

/// An equation between sizes that must hold under every binding; `message` says what disagrees.
struct DimCheck {
  Dim left, right;
  std::string message;
};

class Graph;

class InferContext {
 public:
  /// `graph`: the node's, whose sub-graphs the attributes may name.
  InferContext(const OpDef& def, std::span<const Shape> inputs, const Graph* graph = nullptr)
      : def_(def), inputs_(inputs), graph_(graph) {}

  int arity() const { return static_cast<int>(inputs_.size()); }
  const Shape& in(int i) const;  ///< fails "op: needs N operands, found M" when it is absent
  bool has(int i) const { return i < arity(); }
  std::string_view operand(int i) const;  ///< name of operand i, for messages
  /// A sub-graph of the node; fails "op: the sub-graph "what" is missing" without one.
  const Graph& subgraph(GraphRef ref, std::string_view what) const;

  void out(const Shape& shape) { results_.push_back(shape); }

  /// Both sizes must be equal: an Error(shape) now when they are known to differ, a check for later
  /// when undecided.
  void equal(Dim a, Dim b, std::string_view what);
  void rank(int i, int rank);  ///< operand i has this rank
  void dtype(int i, std::initializer_list<DType> any_of);
  void is_float(int i);
  void is_kind(int i, ShapeKind kind);
  /// Throws Error(shape): "op: message".
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    fail_text(fmt::format(text, std::forward<Args>(args)...));
  }
  [[noreturn]] void fail_text(const std::string& message) const;

  std::vector<Shape>& results() { return results_; }
  std::vector<DimCheck>& checks() { return checks_; }

 private:
  const OpDef& def_;
  std::span<const Shape> inputs_;
  const Graph* graph_;
  std::vector<Shape> results_;
  std::vector<DimCheck> checks_;
};

}  // namespace rlx
