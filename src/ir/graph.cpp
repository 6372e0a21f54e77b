#include "ir/graph.h"

#include <algorithm>

#include "ir/source.h"

namespace rlx {
namespace {

std::string where(const OpDef& def, const std::string& origin) {
  return origin.empty() ? std::string(def.name) : fmt::format("{} (in {})", def.name, origin);
}

}  // namespace

Value Graph::add(const OpDef& def, const AttrBlob& attrs, std::vector<Value> inputs,
                 std::string origin) {
  RLX_CHECK(!def.has(Trait::source), std::string(def.name));
  std::array<Shape, 24> shapes;
  RLX_CHECK(inputs.size() <= shapes.size(), std::string(def.name));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value v = inputs[i];
    RLX_CHECK(v.node >= 0 && static_cast<std::size_t>(v.node) < nodes_.size() && v.index >= 0 &&
                  static_cast<std::size_t>(v.index) < node(v).results.size(),
              fmt::format("operand {} of {} is no value of the graph", i, where(def, origin)));
    shapes[i] = shape(v);
  }
  const int least = static_cast<int>(def.operands.size()) - def.optional_operands;
  if (!def.operands.empty() &&
      (static_cast<int>(inputs.size()) < least || inputs.size() > def.operands.size()))
    fail(ErrorCode::shape, "{}: expected {}{} operands, found {}", where(def, origin), least,
         def.optional_operands > 0 ? fmt::format(" to {}", def.operands.size()) : "",
         inputs.size());
  InferContext c(def, {shapes.data(), inputs.size()});
  try {
    def.infer(attrs, c);
  } catch (const Error& e) {
    if (origin.empty()) throw;
    throw Error(e.code(), fmt::format("{}: {}", origin, e.what()));
  }
  for (DimCheck& check : c.checks())
    if (std::none_of(checks_.begin(), checks_.end(), [&](const DimCheck& old) {
          return old.left == check.left && old.right == check.right;
        }))
      checks_.push_back(std::move(check));
  nodes_.push_back(
      Node{&def, attrs, std::move(inputs), std::move(c.results()), {}, std::move(origin)});
  return {static_cast<std::int32_t>(nodes_.size()) - 1, 0};
}

Value Graph::add_source(const OpDef& def, std::string source_name, const Shape& shape,
                        std::string origin) {
  RLX_CHECK(def.has(Trait::source), std::string(def.name));
  if (find_source(source_name))
    fail(ErrorCode::invalid_argument, "{}: a second {} named \"{}\"", name, def.name, source_name);
  nodes_.push_back(
      Node{&def, def.defaults(), {}, {shape}, std::move(source_name), std::move(origin)});
  return {static_cast<std::int32_t>(nodes_.size()) - 1, 0};
}

Value Graph::find_source(std::string_view source_name) const {
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].def->has(Trait::source) && nodes_[i].name == source_name)
      return {static_cast<std::int32_t>(i), 0};
  return {};
}

std::vector<std::vector<std::int32_t>> Graph::uses() const {
  std::vector<std::vector<std::int32_t>> uses(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) uses[i].resize(nodes_[i].results.size());
  const auto count = [&](Value v) {
    ++uses[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)];
  };
  for (const Node& n : nodes_)
    for (Value v : n.inputs) count(v);
  for (const Output& o : outputs_) count(o.value);
  return uses;
}

Value Builder::input(std::string name, const Shape& shape) {
  return graph_->add_source(op_def<Input>(), std::move(name), shape, origin_);
}
Value Builder::param(std::string name, const Shape& shape) {
  return graph_->add_source(op_def<Param>(), std::move(name), shape, origin_);
}
Value Builder::state(std::string name, const Shape& shape) {
  return graph_->add_source(op_def<State>(), std::move(name), shape, origin_);
}

Value Builder::result(Value v, int index) const {
  RLX_CHECK(index >= 0 && static_cast<std::size_t>(index) < graph_->node(v).results.size());
  return {v.node, index};
}

Value Body::in(int i) const {
  RLX_CHECK(i >= 0 && i < arity());
  return inputs_[static_cast<std::size_t>(i)];
}

std::vector<Symbol> collect_symbols(const Graph& graph) {
  std::vector<Symbol> symbols;
  for (const Node& n : graph.nodes()) {
    for (const Shape& s : n.results)
      for (Dim d : s.dims()) d.collect(symbols);
    n.def->collect_dims(n.attrs, symbols);
  }
  std::sort(symbols.begin(), symbols.end());
  symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
  return symbols;
}

Graph bind(const Graph& graph, const DimBinding& binding) {
  for (const DimCheck& check : graph.checks()) {
    const Dim l = check.left.bind(binding), r = check.right.bind(binding);
    if (l.is_constant() && r.is_constant() && !(l == r))
      fail(ErrorCode::shape, "{}: {} = {} but {} = {} under {}", check.message, check.left.text(),
           l.text(), check.right.text(), r.text(), binding.text());
  }
  Graph bound(graph.name, graph.stage);
  for (const Node& n : graph.nodes()) {
    if (n.def->has(Trait::source)) {
      bound.add_source(*n.def, n.name, n.results[0].bind(binding), n.origin);
      continue;
    }
    AttrBlob attrs = n.attrs;
    n.def->bind_dims(attrs, binding);
    bound.add(*n.def, attrs, n.inputs, n.origin);
  }
  bound.set_outputs({graph.outputs().begin(), graph.outputs().end()});
  return bound;
}

void require_bound(const Graph& graph) {
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& n = graph.nodes()[i];
    std::vector<Symbol> symbols;
    for (const Shape& s : n.results)
      for (Dim d : s.dims()) d.collect(symbols);
    n.def->collect_dims(n.attrs, symbols);
    if (!symbols.empty())
      fail(ErrorCode::shape, "{}: the symbol \"{}\" is not bound; first needed by {} {}",
           graph.name, symbols[0].name(), n.def->name,
           n.name.empty() ? fmt::format("%{}", i) : fmt::format("\"{}\"", n.name));
  }
}

}  // namespace rlx
