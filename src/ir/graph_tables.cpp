// The side tables of a graph, and copies of nodes between graphs.
#include <algorithm>
#include <cstring>

#include "base/key_writer.h"
#include "ir/graph.h"
#include "ir/source.h"

namespace rlx {

std::shared_ptr<const ConstantData> make_constant(const Tensor& value) {
  if (value.data() == nullptr) fail(ErrorCode::invalid_argument, "a constant needs a tensor with data");
  Tensor mine = Tensor::zeros(value.dims(), value.dtype());
  const auto bytes = static_cast<std::size_t>(value.byte_size());
  if (bytes > 0) std::memcpy(mine.mutable_data(), value.data(), bytes);
  const Digest content = digest(std::span<const std::byte>(mine.data(), bytes));
  const Digest whole = KeyWriter("constant").text("shape", mine.text()).digest("bytes", content).finish();
  return std::make_shared<const ConstantData>(ConstantData{std::move(mine), whole});
}

ConstantRef Graph::intern(std::shared_ptr<const ConstantData> data) {
  const auto at = std::find_if(constants_.begin(), constants_.end(),
                               [&](const auto& c) { return c == data || c->digest == data->digest; });
  const auto index = static_cast<std::int32_t>(at - constants_.begin());
  if (at == constants_.end()) constants_.push_back(std::move(data));
  return {index};
}

const ConstantData& Graph::constant(ConstantRef ref) const {
  RLX_CHECK(ref.index >= 0 && static_cast<std::size_t>(ref.index) < constants_.size());
  return *constants_[static_cast<std::size_t>(ref.index)];
}

Value Graph::add_constant(ConstantRef ref, std::string origin) {
  const Shape shape = constant(ref).value.shape();
  return append(Node{&op_def<Constant>(), to_blob(Constant{ref}), {}, {shape}, {}, std::move(origin)});
}

const ConstantData* Graph::constant_of(Value v) const {
  const auto c = node(v).as<Constant>();
  return c ? &constant(c->data) : nullptr;
}

GraphRef Graph::add_subgraph(Graph graph) {
  for (const Node& n : graph.nodes()) {
    const bool state = std::any_of(n.results.begin(), n.results.end(), [](const Shape& s) { return s.is_state(); });
    if (state || (n.def->has(Trait::source) && !n.is<Input>() && !n.is<Constant>()))
      fail(ErrorCode::shape, "sub-graph \"{}\": expected inputs and constants as its only sources, found {} \"{}\"",
           graph.name, n.def->name, n.name);
  }
  if (graph.nesting_ + 1 > kMaxGraphNesting)
    fail(ErrorCode::limit, "sub-graph \"{}\": more than {} levels of sub-graphs", graph.name, kMaxGraphNesting);
  nesting_ = std::max(nesting_, graph.nesting_ + 1);
  graph.stage = stage;
  subgraphs_.push_back(std::make_shared<const Graph>(std::move(graph)));
  return {static_cast<std::int32_t>(subgraphs_.size()) - 1};
}

const Graph& Graph::subgraph(GraphRef ref) const {
  RLX_CHECK(ref.index >= 0 && static_cast<std::size_t>(ref.index) < subgraphs_.size());
  return *subgraphs_[static_cast<std::size_t>(ref.index)];
}

void Graph::replace_subgraph(GraphRef ref, Graph graph) {
  RLX_CHECK(ref.index >= 0 && static_cast<std::size_t>(ref.index) < subgraphs_.size());
  RLX_CHECK(graph.nesting_ < kMaxGraphNesting, graph.name);
  nesting_ = std::max(nesting_, graph.nesting_ + 1);
  subgraphs_[static_cast<std::size_t>(ref.index)] = std::make_shared<const Graph>(std::move(graph));
}

Graph Graph::sibling() const {
  Graph fresh(name, stage);
  fresh.checks_ = checks_;
  fresh.constants_ = constants_;
  fresh.subgraphs_ = subgraphs_;
  fresh.nesting_ = nesting_;
  return fresh;
}

Value Graph::copy(const Graph& from, const Node& n, std::vector<Value> inputs) {
  bool same = inputs.size() == n.inputs.size();
  for (std::size_t i = 0; same && i < inputs.size(); ++i) same = shape(inputs[i]) == from.shape(n.inputs[i]);
  if (!same) return add(*n.def, n.attrs, std::move(inputs), n.origin);
  return append(Node{n.def, n.attrs, std::move(inputs), n.results, n.name, n.origin});
}

Value Graph::import_node(const Graph& from, const Node& n, std::vector<Value> inputs) {
  if (const auto c = n.as<Constant>())
    return add_constant(intern(from.constants_[static_cast<std::size_t>(c->data.index)]), n.origin);
  if (n.def->has(Trait::source)) return add_source(*n.def, n.name, n.results[0], n.origin);
  AttrBlob attrs = n.attrs;
  if (n.def->has_graphs)
    n.def->visit_graphs(attrs, [&](GraphRef& ref) { ref = add_subgraph(from.subgraph(ref)); });
  return add(*n.def, attrs, std::move(inputs), n.origin);
}

std::vector<GraphRef> subgraphs_of(const Node& node) {
  std::vector<GraphRef> refs;
  if (!node.def->has_graphs) return refs;
  AttrBlob attrs = node.attrs;
  node.def->visit_graphs(attrs, [&](GraphRef& ref) { refs.push_back(ref); });
  return refs;
}

}  // namespace rlx
