// How passes change a graph: they build it anew, node by node.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace rlx {

/// Walks the nodes of a graph in order and rebuilds it from the first change on: what stands before it is borrowed
/// until then, and a graph that no rule changes costs a walk. For each node the function may emit other nodes and give
/// the values that stand for the node's results; without an answer the node is copied, with the shapes that it has when
/// those of its operands stay. Nodes that nothing reads any more are dropped, inputs, params and states never.
/// Provenance of emitted nodes is that of the node they replace.
class Rewriter {
 public:
  explicit Rewriter(Graph& graph) : graph_(graph) {}

  struct Site {
    std::int32_t index;             ///< of the node in the old graph
    const Node& node;               ///< old
    std::span<const Value> inputs;  ///< new values of its operands
    Builder& b;                     ///< emits into the new graph
  };
  /// Values that replace the results, in order; no value: copy the node.
  using Answer = std::vector<Value>;
  using Rule = std::function<Answer(const Site&)>;

  /// True when the rule answered at least once; then the graph is the new one.
  bool run(const Rule& rule);

  /// Facts of the old graph for rules.
  const Graph& old() const { return graph_; }
  /// The old node that made operand i of `node`.
  const Node& producer(const Node& node, std::size_t i) const {
    return graph_.node(node.inputs[i]);
  }
  /// Whether a value of the old graph has exactly one reader and is no output.
  bool single_use(Value v) const;
  /// The new value of an old one that was rebuilt already.
  Value now(Value old_value) const;
  std::vector<Value> now(std::span<const Value> old_values) const;

 private:
  std::size_t place(Value v) const;  // in first_

  Graph& graph_;
  // Made when something asks for them: the place of each node's first value, and per value its readers (an output
  // counts as two).
  mutable std::vector<std::int32_t> first_, readers_;
  std::size_t same_ = 0;  // nodes in front that are the same in both graphs
  std::vector<Value> map_;
};

/// Drops nodes that no output and no state update needs; inputs, params and states stay. True when something was
/// dropped.
bool drop_dead(Graph& graph);

/// Emits the body of a composite or fused op for the given operands; the values that stand for its
/// results.
std::vector<Value> expand(const Node& node, std::span<const Value> inputs, Builder& b);

}  // namespace rlx
