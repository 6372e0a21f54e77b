#include "ir/stage.h"

#include <map>

#include "ir/print.h"

namespace rlx {
namespace {

[[noreturn]] void broken(const Graph& graph, std::string_view after, std::int32_t node,
                         const std::string& rule) {
  throw InternalError(
      fmt::format("after {}: {}: {}\n  {}", after, graph.name, rule, print_node(graph, node)));
}

// `inputs` and `results` are room that all nodes share.
void check_shapes(const Graph& graph, std::string_view after, std::int32_t i, std::vector<Shape>& inputs,
                  std::vector<Shape>& results) {
  const Node& n = graph.node(i);
  if (n.def->has(Trait::source)) return;
  inputs.clear();
  results.clear();
  for (Value v : n.inputs) inputs.push_back(graph.shape(v));
  InferContext c(*n.def, inputs, &graph);
  c.results().swap(results);
  n.def->infer(n.attrs, c);
  c.results().swap(results);
  if (results != n.results) broken(graph, after, i, "a stored shape differs from the inferred one");
}

void check_stage(const Graph& graph, std::string_view after, std::int32_t i) {
  const Node& n = graph.node(i);
  if (graph.stage == Stage::mir && n.def->has(Trait::composite))
    broken(graph, after, i, "a block of HIR is left in MIR");
  if (graph.stage == Stage::hir)
    for (const Shape& s : n.results)
      if (s.layout != Layout::plain || s.dtype == DType::xq8)
        broken(graph, after, i, "a layout of MIR appears in HIR");
}

}  // namespace

void verify(const Graph& graph, std::string_view after) {
  std::vector<bool> checked(graph.subgraph_count(), false);
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> updated_by;
  std::vector<Shape> inputs, results;
  for (std::size_t k = 0; k < graph.nodes().size(); ++k) {
    const auto i = static_cast<std::int32_t>(k);
    const Node& n = graph.node(i);
    check_shapes(graph, after, i, inputs, results);
    check_stage(graph, after, i);
    for (GraphRef ref : subgraphs_of(n)) {
      const auto k_sub = static_cast<std::size_t>(ref.index);
      if (checked[k_sub]) continue;
      checked[k_sub] = true;
      if (graph.subgraph(ref).stage != graph.stage) broken(graph, after, i, "a sub-graph is at another stage");
      verify(graph.subgraph(ref), after);
    }
    const bool updates = [&] {
      for (const Shape& s : n.results)
        if (s.is_updated()) return true;
      return false;
    }();
    for (Value v : n.inputs) {
      if (!graph.shape(v).is_updated()) continue;
      const auto [it, fresh] = updated_by.try_emplace({v.node, v.index}, -1);
      if (it->second >= 0)
        broken(graph, after, i,
               fmt::format("a state is read after node %{} updated it", it->second));
      if (updates) it->second = i;
    }
  }
  std::map<std::string_view, int> names;
  for (const Output& o : graph.outputs())
    if (++names[o.name] > 1)
      broken(graph, after, o.value.node, fmt::format("two outputs named \"{}\"", o.name));
}

}  // namespace rlx
