#include "compiler/phase.h"

#include <algorithm>

#include "ir/source.h"
#include "ops/index.h"

namespace rlx {

std::string_view name(Phase p) {
  constexpr std::string_view names[] = {"prologue", "steady", "epilogue"};
  return names[static_cast<std::size_t>(p)];
}

namespace {

// A value whose size is the step's: also one of constants is made anew for another size.
bool has_symbolic_size(const Node& n) {
  return std::any_of(n.results.begin(), n.results.end(), [](const Shape& s) {
    return std::any_of(s.dims().begin(), s.dims().end(), [](Dim d) { return !d.is_constant(); });
  });
}

}  // namespace

std::vector<Phase> derive_phases(const Graph& graph) {
  const std::size_t count = graph.nodes().size();
  std::vector<Phase> phases(count, Phase::steady);
  std::vector<bool> stepwise(count, false), wanted(count, false);
  std::size_t last_compute = count;
  bool selects = false;
  for (std::size_t i = 0; i < count; ++i) {
    const Node& n = graph.nodes()[i];
    if (n.def->has(Trait::compute)) last_compute = i;
    selects |= n.is<SelectRows>();
    stepwise[i] = n.is<Input>() || n.is<State>() || has_symbolic_size(n);
    wanted[i] = n.is<SelectRows>() || n.def->has(Trait::sampling);
    for (Value v : n.inputs) {
      const auto k = static_cast<std::size_t>(v.node);
      stepwise[i] = stepwise[i] || stepwise[k];
      wanted[i] = wanted[i] || wanted[k];
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Node& n = graph.nodes()[i];
    if (n.def->has(Trait::source) || !stepwise[i])
      phases[i] = Phase::prologue;
    else if (wanted[i])
      phases[i] = Phase::epilogue;
    else if (!selects && last_compute < count && i > last_compute)
      phases[i] = Phase::epilogue;
  }
  return phases;
}

}  // namespace rlx
