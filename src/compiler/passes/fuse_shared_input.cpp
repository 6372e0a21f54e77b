#include "compiler/passes/fuse_shared_input.h"

#include <map>

#include "compiler/passes/fusion_notes.h"
#include "ir/source.h"
#include "ops/fused.h"
#include "ops/matmul.h"
#include "ops/quant.h"

namespace rlx {
namespace {

constexpr std::size_t kMost = 3;  // products of one call

// Products that read one value, by the first of them.
using Groups = std::map<std::int32_t, std::vector<std::int32_t>>;

// A packing or an exchange of axes that the weight store does: it can be made again anywhere behind its param.
bool made_of_weight(const Node& n) { return n.is<Pack>() || n.is<TransposeWeight>(); }

// A param is declared wherever it is needed first.
bool can_stand_before(const Graph& graph, Value v, std::int32_t first) {
  constexpr int kSteps = 4;  // an exchange of axes and a packing, with room
  for (int i = 0; i < kSteps && v.node > first && made_of_weight(graph.node(v)); ++i) v = graph.node(v).inputs[0];
  return v.node < first || graph.node(v).is<Param>();
}

using Moved = std::map<std::int32_t, Value>;  // old node -> its result in the new graph, made before its place

// The new value of an old one that stands before the first product, or that is made there.
Value bring(const Rewriter& rewriter, const Rewriter::Site& s, Value v, Moved& moved) {
  if (v.node < s.index) return rewriter.now(v);
  const Node& n = rewriter.old().node(v);
  if (!n.is<Param>()) return s.b.graph().add(*n.def, n.attrs, {bring(rewriter, s, n.inputs[0], moved)}, n.origin);
  const auto [it, absent] = moved.try_emplace(v.node);
  if (absent) it->second = s.b.graph().copy(rewriter.old(), n, {});
  return it->second;
}

std::string member_obstacle(const Graph& graph, std::int32_t first, std::int32_t i) {
  const Node& n = graph.node(i);
  const Linear linear = *n.as<Linear>();
  if (linear.act != Act::none) return "a product on the same input has an activation";
  if (linear.residual) return "a product on the same input has a residual";
  // The call stands at the place of its first product: all that it reads must be there.
  for (Value v : n.inputs)
    if (!can_stand_before(graph, v, first))
      return "a weight of a product on the same input is computed after the first product";
  return {};
}

Groups find_groups(const Graph& graph, const FusionNotes& notes) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::int32_t>> readers;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i)
    if (const Node& n = graph.nodes()[i]; n.is<Linear>())
      readers[{n.inputs[0].node, n.inputs[0].index}].push_back(static_cast<std::int32_t>(i));
  Groups groups;
  for (const auto& [x, all] : readers) {
    if (all.size() < 2) continue;
    std::vector<std::int32_t> group;
    const auto close = [&] {
      if (group.size() > 1) groups[group[0]] = group;
      group.clear();
    };
    for (std::int32_t i : all) {
      std::string why = member_obstacle(graph, group.empty() ? i : group[0], i);
      if (!why.empty()) {
        notes.missed(graph.node(i), i, [&] { return std::move(why); });
        continue;
      }
      group.push_back(i);
      if (group.size() == kMost) close();
    }
    close();
  }
  return groups;
}

Value join(const Rewriter& rewriter, const Rewriter::Site& s, std::span<const std::int32_t> group, Moved& moved) {
  FusedLinear op{.weights = static_cast<std::int32_t>(group.size())};
  std::vector<Value> operands = {s.inputs[0]}, biases;
  for (std::size_t k = 0; k < group.size(); ++k) {
    const Node& n = rewriter.old().node(group[k]);
    const Linear linear = *n.as<Linear>();
    operands.push_back(bring(rewriter, s, n.inputs[1], moved));
    if (!linear.bias) continue;
    op.biases |= 1 << k;
    biases.push_back(bring(rewriter, s, n.inputs[2], moved));
  }
  operands.insert(operands.end(), biases.begin(), biases.end());
  return s.b.emit(op, std::move(operands));
}

}  // namespace

bool fuse_shared_input(Graph& graph, const PassContext& context) {
  const FusionNotes notes(context, "fuse_shared_input");
  const Groups groups = find_groups(graph, notes);
  if (groups.empty()) return false;
  Rewriter rewriter(graph);
  Moved made;  // products and their results of the joined call, and params
  return rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    if (const auto it = groups.find(s.index); it != groups.end()) {
      const Value joined = join(rewriter, s, it->second, made);
      for (std::size_t k = 0; k < it->second.size(); ++k)
        made[it->second[k]] = s.b.result(joined, static_cast<int>(k));
      notes.fused(FusedLinear::name, s);
    }
    const auto it = made.find(s.index);
    return it == made.end() ? Rewriter::Answer{} : Rewriter::Answer{it->second};
  });
}

}  // namespace rlx
