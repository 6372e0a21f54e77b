#include "compiler/passes/select_rows_up.h"

#include <map>

#include "compiler/passes/fusion_notes.h"
#include "ir/rewrite.h"
#include "ops/arithmetic.h"
#include "ops/fused.h"
#include "ops/index.h"
#include "ops/matmul.h"
#include "ops/reduction.h"
#include "ops/shape_ops.h"

namespace rlx {
namespace {

// Whether operand i holds a row for each row of the result; weights and vectors over the columns do not.
bool has_rows(const Shape& operand, const Shape& result) {
  return !operand.is_state() && operand.rank() == result.rank() && operand.dim(0) == result.dim(0);
}

// An op along one axis keeps rows apart when that axis is the last.
template <typename Op>
bool along_columns(const Node& node) {
  const auto op = node.as<Op>();
  return op && (op->axis == -1 || op->axis == 1);
}

// Whether row r of the result depends on the rows r of its operands alone. All here have rank 2, as what select_rows
// takes has.
bool keeps_rows_apart(const Node& n) {
  return n.def->has(Trait::row_wise) || n.is<Where>() || along_columns<Softmax>(n) || along_columns<LogSoftmax>(n) ||
         along_columns<Cumulative>(n) || along_columns<Slice>(n) || along_columns<Concat>(n) || along_columns<Pad>(n);
}

// The operands that are selected with the result. Of a product only its input and its residual have rows, though a
// weight may have as many.
std::vector<bool> selected(const Graph& graph, const Node& n) {
  const bool any = n.def->has(Trait::elementwise) || n.is<Concat>();
  const auto linear = n.as<Linear>();
  const auto fused = n.as<FusedLinear>();
  const int residual = linear ? linear->residual_at() : fused && fused->residual ? fused->residual_at() : -1;
  std::vector<bool> list;
  for (std::size_t i = 0; i < n.inputs.size(); ++i)
    list.push_back((any || i == 0 || static_cast<int>(i) == residual) &&
                   has_rows(graph.shape(n.inputs[i]), n.results[0]));
  return list;
}

// Which rows each node is to compute: the index of the select_rows that all its readers go through, or none.
class Selection {
 public:
  Selection(const Graph& graph, const FusionNotes& notes)
      : graph_(graph), index_(graph.nodes().size()), wanted_(graph.nodes().size()) {
    std::vector<bool> kept(graph.nodes().size(), false);  // read by something that wants all rows
    for (const Output& o : graph.outputs()) kept[static_cast<std::size_t>(o.value.node)] = true;
    for (std::size_t k = graph.nodes().size(); k-- > 0;) {
      const auto i = static_cast<std::int32_t>(k);
      const Node& n = graph.node(i);
      if (wanted_[k] && keeps_rows_apart(n) && n.results.size() == 1) decide(i, kept[k], notes);
      const std::vector<bool> rows = index_[k] ? selected(graph, n) : std::vector<bool>(n.inputs.size(), false);
      for (std::size_t o = 0; o < n.inputs.size(); ++o) {
        const Value by = n.is<SelectRows>() && o == 0 ? n.inputs[1] : rows[o] ? index_[k] : Value{};
        const auto from = static_cast<std::size_t>(n.inputs[o].node);
        Value& wanted = wanted_[from];
        if (!by || (wanted && wanted != by)) kept[from] = true;
        if (by) wanted = by;
      }
    }
  }

  Value index(std::int32_t node) const { return index_[static_cast<std::size_t>(node)]; }

 private:
  void decide(std::int32_t i, bool kept, const FusionNotes& notes) {
    const Node& n = graph_.node(i);
    const Value by = wanted_[static_cast<std::size_t>(i)];
    // With a number of rows that is known, a constant operand may have as many by chance.
    if (n.results[0].dim(0).is_constant()) return;
    if (kept) return notes.missed(n, i, [&] { return shared_reason(graph_, {i, 0}); });
    if (by.node >= i)
      return notes.missed(n, i, [&] { return fmt::format("the wanted rows are made after the {}", n.def->name); });
    const std::vector<bool> rows = selected(graph_, n);
    for (std::size_t o = 0; o < n.inputs.size(); ++o) {
      const DType d = graph_.shape(n.inputs[o]).dtype;
      if (rows[o] && d != DType::f32 && d != DType::xq8)
        return notes.missed(n, i, [&] { return fmt::format("{} reads rows of {}", n.def->name, name(d)); });
    }
    index_[static_cast<std::size_t>(i)] = by;
  }

  const Graph& graph_;
  std::vector<Value> index_, wanted_;
};

}  // namespace

bool select_rows_up(Graph& graph, const PassContext& context) {
  const FusionNotes notes(context, "select_rows_up");
  const Selection selection(graph, notes);
  Rewriter rewriter(graph);
  std::map<std::pair<std::int32_t, std::int32_t>, Value> made;  // a value that is selected once for all its readers
  const auto chosen = [&](Builder& b, Value v, Value index) {
    if (selection.index(v.node)) return rewriter.now(v);
    Value& value = made[{v.node, v.index}];
    if (!value || b.graph().node(value).inputs[1] != rewriter.now(index))
      value = b(SelectRows{}, rewriter.now(v), rewriter.now(index));
    return value;
  };
  return rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    if (s.node.is<SelectRows>() && selection.index(s.node.inputs[0].node)) return {s.inputs[0]};
    const Value index = selection.index(s.index);
    if (!index) return {};
    const std::vector<bool> rows = selected(rewriter.old(), s.node);
    std::vector<Value> operands(s.inputs.begin(), s.inputs.end());
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (rows[i]) operands[i] = chosen(s.b, s.node.inputs[i], index);
    return {s.b.graph().add(*s.node.def, s.node.attrs, std::move(operands), s.node.origin)};
  });
}

}  // namespace rlx
