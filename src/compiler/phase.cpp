#include "compiler/phase.h"

#include <algorithm>

#include "base/error.h"
#include "ir/source.h"
#include "ops/index.h"
#include "ops/select.h"

namespace rlx {
namespace {

/// A node that looks at a size of the step, in a result's shape, an attribute or a sub-graph: what it makes of
/// constants alone holds for that size only.
bool sees_sizes(const Graph& graph, const Node& n) {
  for (const Shape& s : n.results)
    if (std::any_of(s.dims().begin(), s.dims().end(), [](Dim d) { return !d.is_constant(); })) return true;
  std::vector<Symbol> symbols;
  n.def->collect_dims(n.attrs, symbols);
  if (n.def->has_graphs) {
    AttrBlob attrs = n.attrs;
    n.def->visit_graphs(attrs, [&](GraphRef& ref) {
      for (const Symbol s : collect_symbols(graph.subgraph(ref))) symbols.push_back(s);
    });
  }
  return !symbols.empty();
}

/// Facts of a graph's nodes, each found in one sweep.
class PhaseFacts {
 public:
  explicit PhaseFacts(const Graph& graph)
      : graph_(graph), ends_in_choice_(count(), true), stepwise_(count()), wanted_(count()) {
    find_readers();
    for (std::size_t i = 0; i < count(); ++i) visit(i);
  }

  std::size_t count() const { return graph_.nodes().size(); }

  Phase phase(std::size_t i) const {
    if (graph_.nodes()[i].def->has(Trait::source) || !stepwise_[i]) return Phase::prologue;
    const bool behind = computes_ && !selects_ && i > last_compute_;
    return wanted_[i] || behind ? Phase::epilogue : Phase::steady;
  }

 private:
  static bool samples(const Node& n) { return n.def->has(Trait::sampling); }
  /// Shapes values that were chosen, and chooses nothing itself.
  static bool passes_on(const Node& n) { return n.def->has(Trait::view); }

  /// From the last node to the first: whether all that reads a node is a sampling op or an output,
  /// views between them aside.
  void find_readers() {
    for (std::size_t i = count(); i-- > 0;) {
      const Node& n = graph_.nodes()[i];
      const bool harmless = samples(n) || (passes_on(n) && ends_in_choice_[i]);
      if (harmless) continue;
      for (Value v : n.inputs) ends_in_choice_[static_cast<std::size_t>(v.node)] = false;
    }
  }

  void visit(std::size_t i) {
    const Node& n = graph_.nodes()[i];
    if (n.def->has(Trait::compute)) {
      computes_ = true;
      last_compute_ = i;
    }
    selects_ = selects_ || n.is<SelectRows>();
    stepwise_[i] = n.is<Input>() || n.is<State>() || sees_sizes(graph_, n);
    wanted_[i] = n.is<SelectRows>() || samples(n) || (n.is<TopK>() && ends_in_choice_[i]);
    for (Value v : n.inputs) {
      const auto k = static_cast<std::size_t>(v.node);
      stepwise_[i] = stepwise_[i] || stepwise_[k];
      wanted_[i] = wanted_[i] || wanted_[k];
    }
  }

  const Graph& graph_;
  std::vector<bool> ends_in_choice_, stepwise_, wanted_;
  std::size_t last_compute_ = 0;
  bool computes_ = false, selects_ = false;
};

}  // namespace

std::string_view name(Phase p) {
  constexpr std::string_view names[] = {"prologue", "steady", "epilogue"};
  return names[static_cast<std::size_t>(p)];
}

PhaseSchedule::PhaseSchedule(std::size_t nodes) {
  for (std::size_t i = 0; i < nodes; ++i) entries_.push_back({static_cast<std::int32_t>(i), Phase::steady});
}

Phase PhaseSchedule::get(std::int32_t node) const {
  if (node < 0 || static_cast<std::size_t>(node) >= entries_.size())
    fail(ErrorCode::invalid_argument, "phases: expected a node from 0 to {}, found {}",
         static_cast<std::int64_t>(entries_.size()) - 1, node);
  return entries_[static_cast<std::size_t>(node)].phase;
}

void PhaseSchedule::set(std::int32_t node, Phase phase) {
  get(node);
  entries_[static_cast<std::size_t>(node)].phase = phase;
}

std::vector<std::int32_t> PhaseSchedule::nodes(Phase phase) const {
  std::vector<std::int32_t> found;
  for (const Entry& e : entries_)
    if (e.phase == phase) found.push_back(e.node);
  return found;
}

std::vector<std::int32_t> PhaseSchedule::nodes(Phase phase, std::span<const std::int32_t> schedule) const {
  std::vector<std::int32_t> found;
  for (const std::int32_t node : schedule)
    if (get(node) == phase) found.push_back(node);
  return found;
}

PhaseSchedule derive_phases(const Graph& graph) {
  const PhaseFacts facts(graph);
  PhaseSchedule phases(facts.count());
  for (std::size_t i = 0; i < facts.count(); ++i)
    phases.set(static_cast<std::int32_t>(i), facts.phase(i));
  return phases;
}

}  // namespace rlx
