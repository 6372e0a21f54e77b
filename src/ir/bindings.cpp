// infer_bindings: symbol sizes from the concrete shapes of inputs.
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

}  // namespace

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
