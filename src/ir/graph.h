// A graph: nodes in program order, each an op with its attributes, operands and the shapes of its
// results. HIR and MIR are both graphs; they differ in which ops may appear (stage.h).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/constant.h"
#include "ir/infer.h"
#include "ir/op.h"

namespace rlx {

/// Result `index` of node `node` of a graph.
struct Value {
  std::int32_t node = -1;
  std::int32_t index = 0;
  friend bool operator==(Value, Value) = default;
  explicit operator bool() const { return node >= 0; }
};

/// Where a node comes from: the block that emitted it ("layers.3.attention"), for reports and
/// messages.
struct Node {
  const OpDef* def = nullptr;
  AttrBlob attrs{};
  std::vector<Value> inputs;
  std::vector<Shape> results;
  std::string name;    ///< of a source: the boundary's name; else empty
  std::string origin;  ///< provenance, may be empty

  /// The attributes when the node is an `Op`.
  template <typename Op>
  std::optional<Op> as() const {
    if (def->id != op_id(Op::name)) return std::nullopt;
    return from_blob<Op>(attrs);
  }
  template <typename Op>
  bool is() const {
    return def->id == op_id(Op::name);
  }
};

/// A named result of the graph.
struct Output {
  std::string name;
  Value value;
  friend bool operator==(const Output&, const Output&) = default;
};

/// The nodes of a graph and the names of its sources. A table that is made anew from another may borrow the first nodes
/// of that one: they are copied when it gets a node of its own, so that a pass that changes nothing copies nothing.
class NodeTable {
 public:
  NodeTable() = default;
  NodeTable(const NodeTable& other);  ///< owns its nodes, whatever `other` does
  NodeTable(NodeTable&& other) noexcept { swap(other); }
  NodeTable& operator=(NodeTable other) noexcept {
    swap(other);
    return *this;
  }

  const Node& operator[](std::size_t i) const { return data_[i]; }
  std::size_t size() const { return size_; }
  std::span<const Node> view() const { return {data_, size_}; }
  Value find_source(std::string_view name) const;  ///< no constant; an empty Value when there is none

  Value append(Node node);
  ~NodeTable();
  void reserve(std::size_t nodes);
  /// The first `count` nodes of `lender`, which outlives this state; only while this one owns none.
  void borrow(const NodeTable& lender, std::size_t count);
  void own();                ///< ends the borrowing
  bool borrows() const { return lender_ != nullptr; }
  /// Node k goes to places[k], or away when that is -1: what stays keeps its order, and operands follow.
  void keep(std::span<const std::int32_t> places);

 private:
  void swap(NodeTable& other) noexcept;
  void index(const Node& node, std::size_t place);

  std::vector<Node> own_;
  const Node* data_ = nullptr;  // of own_, or of the lender's
  std::size_t size_ = 0;
  const NodeTable* lender_ = nullptr;
  std::vector<std::pair<std::uint64_t, std::int32_t>> sources_;  // hash of the name, node; of what is owned
};

/// Operands of a node, at most.
inline constexpr std::size_t kMaxOperands = 64;
/// Sub-graphs in sub-graphs, at most.
inline constexpr int kMaxGraphNesting = 8;

enum class Stage : std::uint8_t { hir, mir };
constexpr std::string_view name(Stage s) { return s == Stage::hir ? "hir" : "mir"; }

class Graph {
 public:
  explicit Graph(std::string graph_name = "graph", Stage s = Stage::hir)
      : name(std::move(graph_name)), stage(s) {}

  std::string name;
  Stage stage;

  std::span<const Node> nodes() const { return nodes_.view(); }
  const Node& node(Value v) const { return nodes_[static_cast<std::size_t>(v.node)]; }
  const Node& node(std::int32_t i) const { return nodes_[static_cast<std::size_t>(i)]; }
  const Shape& shape(Value v) const { return node(v).results[static_cast<std::size_t>(v.index)]; }
  std::span<const Output> outputs() const { return outputs_; }
  std::span<const DimCheck> checks() const { return checks_; }

  /// Appends a node whose operands stand before it; infers its results. Errors (shape) name the op,
  /// operand and origin; limit: more than kMaxOperands.
  Value add(const OpDef& def, const AttrBlob& attrs, std::vector<Value> inputs,
            std::string origin = {});
  /// Appends a source (input, param, state) of a given shape. Error(invalid_argument): a second
  /// source of that name.
  Value add_source(const OpDef& def, std::string source_name, const Shape& shape,
                   std::string origin = {});
  void set_outputs(std::vector<Output> outputs) { outputs_ = std::move(outputs); }

  // Side tables. An index stays valid in graphs that are made from this one: sibling(), copies, bind().
  /// The place of a constant; equal contents are stored once.
  ConstantRef intern(std::shared_ptr<const ConstantData> data);
  /// Appends a node for a constant of the table.
  Value add_constant(ConstantRef ref, std::string origin = {});
  const ConstantData& constant(ConstantRef ref) const;
  /// The data of a `constant` node; nullptr for another node.
  const ConstantData* constant_of(Value v) const;
  /// A sub-graph for an attribute of a node. Errors: shape (a source that is no input or constant); limit (more than
  /// kMaxGraphNesting levels).
  GraphRef add_subgraph(Graph graph);
  const Graph& subgraph(GraphRef ref) const;
  std::size_t subgraph_count() const { return subgraphs_.size(); }
  /// Another form of a sub-graph, with the same inputs and outputs.
  void replace_subgraph(GraphRef ref, Graph graph);
  int nesting() const { return nesting_; }  ///< levels of sub-graphs below this graph

  /// No nodes, but the name, the stage, the tables and the checks of this graph.
  Graph sibling() const;
  /// Appends a node of `from`, of which this is a sibling, on other operands. Infers only when their
  /// shapes differ from the old ones.
  Value copy(const Graph& from, const Node& node, std::vector<Value> inputs);
  /// Appends a node of any graph: what it has in side tables goes along. A source keeps its name.
  Value import_node(const Graph& from, const Node& node, std::vector<Value> inputs);

  /// The input, param or state of a name; an empty Value when there is none.
  Value find_source(std::string_view source_name) const { return nodes_.find_source(source_name); }
  /// How many operands and outputs read each result 0..n of each node: uses()[node][index].
  std::vector<std::vector<std::int32_t>> uses() const;

 private:
  friend bool drop_dead(Graph&);  // rewrite.h
  friend class Rewriter;
  friend Graph bind(const Graph&, const DimBinding&);
  void add_check(DimCheck check);
  Value append(Node node) { return nodes_.append(std::move(node)); }

  NodeTable nodes_;
  std::vector<Output> outputs_;
  std::vector<DimCheck> checks_;
  std::vector<std::shared_ptr<const ConstantData>> constants_;
  std::vector<std::shared_ptr<const Graph>> subgraphs_;
  int nesting_ = 0;
};

/// The sub-graphs of a node, in the order of its attributes.
std::vector<GraphRef> subgraphs_of(const Node& node);

/// Emits ops into a graph: `Value y = b(RmsNorm{.eps = 1e-5f}, x, weight);`. Shape errors are
/// thrown at that line.
class Builder {
 public:
  explicit Builder(Graph& graph) : graph_(&graph) {}

  template <typename Op, typename... Values>
  requires(std::same_as<Values, Value>&&...) Value operator()(const Op& op, Values... inputs) {
    return emit(op, {inputs...});
  }
  template <typename Op>
  Value emit(const Op& op, std::vector<Value> inputs) {
    return graph_->add(op_def<Op>(), to_blob(op), std::move(inputs), origin_);
  }

  Value input(std::string name, const Shape& shape);
  Value param(std::string name, const Shape& shape);
  Value state(std::string name, const Shape& shape);
  /// A constant, copied; equal constants of a graph are one node. Error(invalid_argument): an empty Tensor.
  Value constant(const Tensor& value);

  /// Another result of the node that made `v`.
  Value result(Value v, int index) const;
  const Shape& shape(Value v) const { return graph_->shape(v); }
  Graph& graph() { return *graph_; }

  /// Provenance of the nodes that follow.
  void set_origin(std::string_view origin) { origin_ = origin; }
  const std::string& origin() const { return origin_; }

 private:
  Graph* graph_;
  std::string origin_;
};

/// What decompose() writes an op's body with: the operands in order, a builder, and the results.
class Body {
 public:
  Body(Builder& builder, std::span<const Value> inputs) : b(builder), inputs_(inputs) {}

  Builder& b;
  Value in(int i) const;  ///< RLX_CHECK: inside the operands
  int arity() const { return static_cast<int>(inputs_.size()); }
  const Shape& shape(int i) const { return b.shape(in(i)); }
  /// The results of the op, in order.
  void ret(std::initializer_list<Value> results) { results_.assign(results); }
  const std::vector<Value>& results() const { return results_; }

 private:
  std::span<const Value> inputs_;
  std::vector<Value> results_;
};

/// Symbols of all shapes and attributes, in sub-graphs too, each once, sorted by name.
std::vector<Symbol> collect_symbols(const Graph& graph);
inline bool has_symbols(const Graph& graph) { return !collect_symbols(graph).empty(); }

/// The same nodes with every size evaluated, in attributes and sub-graphs too; unbound symbols stay.
/// Error(shape): a check that fails under the binding.
Graph bind(const Graph& graph, const DimBinding& binding);
/// Error(shape) that names the first symbol left and the first node that needs it.
void require_bound(const Graph& graph);
/// Symbol sizes from the concrete shapes of named inputs. Errors (shape): a contradiction (both
/// inputs named), another rank, a size that the expression cannot have, symbols that cannot be told
/// apart.
struct NamedDims {
  std::string name;
  std::vector<std::int64_t> dims;
};
DimBinding infer_bindings(const Graph& graph, std::span<const NamedDims> inputs);

}  // namespace rlx
