#include "compiler/passes/select_rows_up.h"

#include <algorithm>
#include <map>

#include "ir/rewrite.h"
#include "ops/index.h"

namespace rlx {
namespace {

// Operand i of a row-wise node is selected too when its rows are the node's rows; weights and row
// vectors are not.
bool has_rows(const Shape& operand, const Shape& result) {
  return !operand.is_state() && operand.rank() == result.rank() && operand.rank() >= 2 &&
         operand.dim(0) == result.dim(0);
}

// What select_rows takes.
bool can_select(const Shape& s) { return s.rank() == 2 && (s.dtype == DType::f32 || s.dtype == DType::xq8); }

// The nodes of which all readers want the rows of one index, found from the last reader to the first: a residual stream
// that is read by the sum and by the norm is one of them, when both are.
class Wanted {
 public:
  explicit Wanted(const Graph& graph) : graph_(graph), rows_(graph.nodes().size()) {
    for (const Output& o : graph.outputs()) need_whole(o.value);
    for (std::size_t i = graph.nodes().size(); i-- > 0;) look(static_cast<std::int32_t>(i));
  }
  // The index whose rows are all that is wanted of a node that can be computed for them alone.
  Value index_of(std::int32_t node) const {
    const Rows& r = rows_[static_cast<std::size_t>(node)];
    return r.moves ? r.index : Value{};
  }

 private:
  struct Rows {
    Value index;  // of the readers so far
    bool whole = false, moves = false;
  };
  Rows& rows(Value v) { return rows_[static_cast<std::size_t>(v.node)]; }
  void need_whole(Value v) { rows(v).whole = true; }
  void need_rows(Value v, Value index) {
    Rows& r = rows(v);
    r.whole = r.whole || (r.index && r.index != index);
    r.index = index;
  }

  void look(std::int32_t i) {
    const Node& n = graph_.node(i);
    Rows& mine = rows_[static_cast<std::size_t>(i)];
    // A weight [n, k] whose n happens to equal the row count must not be taken for rows: rows of
    // activations are symbolic.
    mine.moves = !mine.whole && mine.index && mine.index.node < i && n.def->has(Trait::row_wise) &&
                 n.results.size() == 1 && n.results[0].rank() >= 2 && !n.results[0].dim(0).is_constant() &&
                 std::all_of(n.inputs.begin(), n.inputs.end(), [&](Value v) {
                   return !has_rows(graph_.shape(v), n.results[0]) || can_select(graph_.shape(v));
                 });
    for (std::size_t k = 0; k < n.inputs.size(); ++k) {
      if (n.is<SelectRows>() && k == 0)
        need_rows(n.inputs[0], n.inputs[1]);
      else if (mine.moves && has_rows(graph_.shape(n.inputs[k]), n.results[0]))
        need_rows(n.inputs[k], mine.index);
      else
        need_whole(n.inputs[k]);
    }
  }

  const Graph& graph_;
  std::vector<Rows> rows_;
};

}  // namespace

bool select_rows_up(Graph& graph, const PassContext&) {
  const auto selects = [](const Node& n) { return n.is<SelectRows>(); };
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), selects)) return false;
  const Wanted wanted(graph);
  Rewriter rewriter(graph);
  std::map<std::pair<std::int32_t, std::int32_t>, Value> selected;  // of a whole value (node, result): its rows
  return rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    if (s.node.is<SelectRows>()) {
      if (wanted.index_of(s.node.inputs[0].node)) return {s.inputs[0]};  // selected already
      return {};
    }
    const Value index = wanted.index_of(s.index);
    if (!index) return {};
    std::vector<Value> operands(s.inputs.begin(), s.inputs.end());
    for (std::size_t k = 0; k < operands.size(); ++k) {
      const Value old = s.node.inputs[k];
      if (!has_rows(rewriter.old().shape(old), s.node.results[0]) || wanted.index_of(old.node)) continue;
      Value& rows = selected[{old.node, old.index}];
      if (!rows) rows = s.b(SelectRows{}, operands[k], rewriter.now(index));
      operands[k] = rows;
    }
    return {s.b.graph().add(*s.node.def, s.node.attrs, std::move(operands), s.node.origin)};
  });
}

}  // namespace rlx
