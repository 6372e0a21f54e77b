#include "ir/rewrite.h"

#include <algorithm>

#include "ir/source.h"

namespace rlx {

// Places of values in first_: made when something asks for them.
static std::vector<std::int32_t> places_of_values(const Graph& graph) {
  std::vector<std::int32_t> first;
  first.reserve(graph.nodes().size() + 1);
  std::int32_t next = 0;
  for (const Node& n : graph.nodes()) {
    first.push_back(next);
    next += static_cast<std::int32_t>(n.results.size());
  }
  first.push_back(next);
  return first;
}

std::size_t Rewriter::place(Value v) const {
  const auto node = static_cast<std::size_t>(v.node);
  if (first_.empty()) first_ = places_of_values(graph_);
  RLX_CHECK(node + 1 < first_.size() && v.index >= 0 && v.index < first_[node + 1] - first_[node]);
  return static_cast<std::size_t>(first_[node] + v.index);
}

bool Rewriter::single_use(Value v) const {
  if (readers_.empty()) {
    first_ = places_of_values(graph_);
    readers_.assign(static_cast<std::size_t>(first_.back()), 0);
    for (const Node& n : graph_.nodes())
      for (Value in : n.inputs) ++readers_[place(in)];
    for (const Output& o : graph_.outputs()) readers_[place(o.value)] += 2;
  }
  return readers_[place(v)] == 1;
}

Value Rewriter::now(Value v) const {
  if (static_cast<std::size_t>(v.node) < same_) return v;
  RLX_CHECK(!map_.empty());
  const Value value = map_[place(v)];
  RLX_CHECK(value.node >= 0);
  return value;
}

std::vector<Value> Rewriter::now(std::span<const Value> old_values) const {
  std::vector<Value> out;
  out.reserve(old_values.size() + 1);  // fused forms add an operand
  for (Value v : old_values) out.push_back(now(v));
  return out;
}

bool Rewriter::run(const Rule& rule) {
  Graph fresh = graph_.sibling();
  Builder b(fresh);
  bool changed = false;
  const std::size_t count = graph_.nodes().size();
  // Up to the first node that the rule makes or replaces, both graphs are the same.
  std::size_t i = 0;
  Answer answer;
  for (; i < count; ++i) {
    const Node& n = graph_.nodes()[i];
    fresh.nodes_.borrow(graph_.nodes_, i);
    same_ = i;
    if (n.origin != b.origin()) b.set_origin(n.origin);
    answer = rule(Site{static_cast<std::int32_t>(i), n, n.inputs, b});
    if (!answer.empty() || !fresh.nodes_.borrows()) break;
  }
  if (i == count) return false;
  fresh.nodes_.own();
  if (first_.empty()) first_ = places_of_values(graph_);
  map_.resize(static_cast<std::size_t>(first_.back()));
  std::vector<Value> inputs = graph_.nodes()[i].inputs;
  for (;;) {
    const Node& n = graph_.nodes()[i];
    Value* const results = map_.data() + first_[i];
    if (answer.empty()) {
      const Value v = fresh.copy(graph_, n, std::move(inputs));
      for (std::size_t k = 0; k < n.results.size(); ++k) results[k] = {v.node, static_cast<std::int32_t>(k)};
    } else {
      changed = true;
      RLX_CHECK(answer.size() == n.results.size(), std::string(n.def->name));
      std::copy(answer.begin(), answer.end(), results);
    }
    if (++i == count) break;
    const Node& next = graph_.nodes()[i];
    inputs.clear();
    inputs.reserve(next.inputs.size());
    for (Value v : next.inputs) inputs.push_back(now(v));
    if (next.origin != b.origin()) b.set_origin(next.origin);
    answer = rule(Site{static_cast<std::int32_t>(i), next, inputs, b});
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
  for (std::size_t k = 0; k < count; ++k)
    if (live[k]) moved[k] = next++;
  graph.nodes_.keep(moved);
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
