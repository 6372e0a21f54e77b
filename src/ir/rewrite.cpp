#include "ir/rewrite.h"

#include <algorithm>

#include "ir/source.h"

namespace rlx {

Rewriter::Rewriter(Graph& graph) : graph_(graph), uses_(graph.uses()), map_(graph.nodes().size()) {}

bool Rewriter::single_use(Value v) const {
  return uses_[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)] == 1 &&
         std::none_of(graph_.outputs().begin(), graph_.outputs().end(),
                      [&](const Output& o) { return o.value == v; });
}

Value Rewriter::now(Value v) const {
  const auto& values = map_[static_cast<std::size_t>(v.node)];
  RLX_CHECK(static_cast<std::size_t>(v.index) < values.size());
  return values[static_cast<std::size_t>(v.index)];
}

std::vector<Value> Rewriter::now(std::span<const Value> old_values) const {
  std::vector<Value> out;
  for (Value v : old_values) out.push_back(now(v));
  return out;
}

bool Rewriter::run(const Rule& rule) {
  Graph fresh = graph_.sibling();
  Builder b(fresh);
  bool changed = false;
  for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
    const Node& n = graph_.nodes()[i];
    std::vector<Value> inputs = now(n.inputs);
    if (n.origin != b.origin()) b.set_origin(n.origin);
    Answer answer = rule(Site{static_cast<std::int32_t>(i), n, inputs, b});
    if (answer.empty()) {
      const Value v = fresh.copy(graph_, n, std::move(inputs));
      for (std::size_t k = 0; k < n.results.size(); ++k)
        answer.push_back({v.node, static_cast<std::int32_t>(k)});
    } else {
      changed = true;
      RLX_CHECK(answer.size() == n.results.size(), std::string(n.def->name));
    }
    map_[i] = std::move(answer);
  }
  if (!changed) return false;
  std::vector<Output> outputs;
  for (const Output& o : graph_.outputs()) outputs.push_back({o.name, now(o.value)});
  fresh.set_outputs(std::move(outputs));
  drop_dead(fresh);
  graph_ = std::move(fresh);
  return true;
}

bool drop_dead(Graph& graph) {
  const std::size_t count = graph.nodes().size();
  std::vector<bool> live(count, false);
  for (const Output& o : graph.outputs()) live[static_cast<std::size_t>(o.value.node)] = true;
  std::size_t alive = 0;
  for (std::size_t k = count; k-- > 0;) {
    const Node& n = graph.nodes()[k];
    // An update of a state is an effect: it stays though nothing reads its result.
    for (const Shape& s : n.results)
      if (s.is_state()) live[k] = true;
    if (n.def->has(Trait::source) && !n.is<Constant>()) live[k] = true;
    if (!live[k]) continue;
    ++alive;
    for (Value v : n.inputs) live[static_cast<std::size_t>(v.node)] = true;
  }
  if (alive == count) return false;
  std::vector<std::int32_t> moved(count, -1);
  std::int32_t next = 0;
  graph.sources_.clear();
  std::vector<Node> kept;
  kept.reserve(alive);
  kept.swap(graph.nodes_);
  for (std::size_t k = 0; k < count; ++k) {
    if (!live[k]) continue;
    moved[k] = next++;
    for (Value& v : kept[k].inputs) v.node = moved[static_cast<std::size_t>(v.node)];
    graph.append(std::move(kept[k]));
  }
  for (Output& o : graph.outputs_) o.value.node = moved[static_cast<std::size_t>(o.value.node)];
  return true;
}

std::vector<Value> expand(const Node& node, std::span<const Value> inputs, Builder& b) {
  RLX_CHECK(node.def->decompose != nullptr, std::string(node.def->name));
  Body body(b, inputs);
  node.def->decompose(node.attrs, body);
  RLX_CHECK(body.results().size() == node.results.size(), std::string(node.def->name));
  return body.results();
}

}  // namespace rlx
