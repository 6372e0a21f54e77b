#include "ir/infer.h"

#include <algorithm>

#include "ir/graph.h"

namespace rlx {

const Shape& InferContext::in(int i) const {
  if (i >= arity()) fail("expected at least {} operands, found {}", i + 1, arity());
  return inputs_[static_cast<std::size_t>(i)];
}

std::string_view InferContext::operand(int i) const {
  const auto k = static_cast<std::size_t>(i);
  return k < def_.operands.size() ? def_.operands[k] : "operand";
}

const Graph& InferContext::subgraph(GraphRef ref, std::string_view what) const {
  if (graph_ == nullptr || !ref || static_cast<std::size_t>(ref.index) >= graph_->subgraph_count())
    fail("the sub-graph \"{}\" is missing", what);
  return graph_->subgraph(ref);
}

void InferContext::fail_text(const std::string& message) const {
  throw Error(ErrorCode::shape, fmt::format("{}: {}", def_.name, message));
}

void InferContext::equal(Dim a, Dim b, std::string_view what) {
  if (a == b) return;
  if (a.is_constant() && b.is_constant()) fail("{}: {} and {} differ", what, a.text(), b.text());
  checks_.push_back({a, b, fmt::format("{}: {}", def_.name, what)});
}

void InferContext::rank(int i, int rank) {
  if (in(i).rank() != rank || in(i).is_state())
    fail("{}: expected rank {}, found {}", operand(i), rank, in(i).text());
}

void InferContext::dtype(int i, std::initializer_list<DType> any_of) {
  if (std::find(any_of.begin(), any_of.end(), in(i).dtype) != any_of.end() && !in(i).is_state())
    return;
  std::string names;
  for (DType d : any_of) names += fmt::format("{}{}", names.empty() ? "" : " or ", name(d));
  fail("{}: expected {}, found {}", operand(i), names, in(i).text());
}

void InferContext::is_float(int i) {
  if (!rlx::is_float(in(i).dtype) || in(i).is_state())
    fail("{}: expected a float dtype, found {}", operand(i), in(i).text());
}

void InferContext::is_kind(int i, ShapeKind kind) {
  if (in(i).kind == kind) return;
  constexpr std::string_view names[] = {"a tensor", "a kv state", "the page table"};
  fail("{}: expected {}, found {}", operand(i), names[static_cast<std::size_t>(kind)],
       in(i).text());
}

}  // namespace rlx
