// Symbols of a graph: collecting them, binding them, finding them from the concrete shapes of inputs.
#include <algorithm>

#include "ir/graph.h"
#include "ir/source.h"

namespace rlx {
namespace {

struct Equation {
  Dim dim;
  std::int64_t size;
  std::string input;
  int axis;
};

std::string place(const Equation& e) {
  return fmt::format("input \"{}\" axis {}", e.input, e.axis);
}

// A size a*s + c of one symbol s: solves it. Nothing when the size has another form.
bool solve(const Equation& e, DimBinding& binding) {
  const Dim d = e.dim.bind(binding);
  std::vector<Symbol> symbols;
  d.collect(symbols);
  if (symbols.size() != 1) return false;
  const auto at = [&](std::int64_t v) {
    return d.bind(DimBinding{{symbols[0], v}}).constant().value_or(0);
  };
  const std::int64_t c = at(0), slope = at(1) - c;
  if (slope == 0 || at(2) - at(1) != slope || !(Dim(slope) * Dim(symbols[0]) + Dim(c) == d))
    return false;
  if ((e.size - c) % slope != 0 || (e.size - c) / slope < 0)
    fail(ErrorCode::shape, "{}: {} cannot be {}", place(e), e.dim.text(), e.size);
  binding.set(symbols[0], (e.size - c) / slope);
  return true;
}

std::vector<Equation> equations(const Graph& graph, std::span<const NamedDims> inputs) {
  std::vector<Equation> all;
  for (const NamedDims& in : inputs) {
    const Value v = graph.find_source(in.name);
    if (!v || !graph.node(v).is<Input>())
      fail(ErrorCode::invalid_argument, "{}: no input named \"{}\"", graph.name, in.name);
    const Shape& shape = graph.shape(v);
    if (static_cast<std::size_t>(shape.rank()) != in.dims.size())
      fail(ErrorCode::shape, "input \"{}\": expected rank {}, found {}", in.name, shape.rank(),
           in.dims.size());
    for (int a = 0; a < shape.rank(); ++a)
      all.push_back({shape.dim(a), in.dims[static_cast<std::size_t>(a)], in.name, a});
  }
  return all;
}

void collect_into(const Graph& graph, std::vector<Symbol>& symbols) {
  for (const Node& n : graph.nodes()) {
    for (const Shape& s : n.results)
      for (Dim d : s.dims()) d.collect(symbols);
    n.def->collect_dims(n.attrs, symbols);
    for (GraphRef ref : subgraphs_of(n)) collect_into(graph.subgraph(ref), symbols);
  }
}

}  // namespace

std::vector<Symbol> collect_symbols(const Graph& graph) {
  std::vector<Symbol> symbols;
  collect_into(graph, symbols);
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
  Graph bound = graph.sibling();
  bound.nodes_.reserve(graph.nodes().size());
  bound.checks_.clear();
  for (auto& sub : bound.subgraphs_) sub = std::make_shared<const Graph>(bind(*sub, binding));
  for (const Node& n : graph.nodes()) {
    if (n.is<Constant>()) {
      bound.copy(graph, n, {});
    } else if (n.def->has(Trait::source)) {
      bound.add_source(*n.def, n.name, n.results[0].bind(binding), n.origin);
    } else {
      AttrBlob attrs = n.attrs;
      n.def->bind_dims(attrs, binding);
      bound.add(*n.def, attrs, n.inputs, n.origin);
    }
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
    for (GraphRef ref : subgraphs_of(n)) require_bound(graph.subgraph(ref));
  }
}

DimBinding infer_bindings(const Graph& graph, std::span<const NamedDims> inputs) {
  const std::vector<Equation> all = equations(graph, inputs);
  DimBinding binding;
  std::map<Symbol, std::string>
      source;  // which equation fixed a symbol, for the message of a contradiction
  for (bool progress = true; progress;) {
    progress = false;
    for (const Equation& e : all) {
      const std::size_t before = binding.sizes().size();
      if (!solve(e, binding)) continue;
      progress = true;
      if (binding.sizes().size() == before) continue;
      for (auto [s, n] : binding.sizes()) source.try_emplace(s, place(e));
    }
  }
  for (const Equation& e : all) {
    const Dim d = e.dim.bind(binding);
    if (!d.is_constant()) {
      std::vector<Symbol> left;
      d.collect(left);
      fail(ErrorCode::shape, "{}: {} = {} does not tell its symbols apart (\"{}\" stays open)",
           place(e), e.dim.text(), e.size, left[0].name());
    }
    if (*d.constant() == e.size) continue;
    std::vector<Symbol> used;
    e.dim.collect(used);
    fail(ErrorCode::shape, "{}: expected {}{}, found {}{}", place(e), e.dim.text(),
         e.dim.is_constant() ? "" : fmt::format(" = {}", *d.constant()), e.size,
         used.empty() ? ""
                      : fmt::format(" (\"{}\" was fixed by {})", used[0].name(), source[used[0]]));
  }
  return binding;
}

}  // namespace rlx
