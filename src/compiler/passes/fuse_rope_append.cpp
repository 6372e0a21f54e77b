#include "compiler/passes/fuse_rope_append.h"

#include <map>

#include "compiler/passes/fusion_notes.h"
#include "ir/rewrite.h"
#include "ops/attention.h"
#include "ops/norm.h"

namespace rlx {
namespace {

// A rope and the per-head norm before it, when that norm feeds only the rope.
struct Rotated {
  Rope rope;
  std::optional<RmsNorm> norm;
  Value x, norm_weight, inv_freq, positions;  // old values
};

std::optional<Rotated> rotated(const Rewriter& rewriter, Value v) {
  const Graph& old = rewriter.old();
  const Node& node = old.node(v);
  const auto rope = node.as<Rope>();
  if (!rope || !rewriter.single_use(v)) return std::nullopt;
  Rotated r{*rope, std::nullopt, node.inputs[0], {}, node.inputs[1], node.inputs[2]};
  const Node& before = old.node(node.inputs[0]);
  const auto norm = before.as<RmsNorm>();
  if (norm && norm->group == rope->head_dim && rewriter.single_use(node.inputs[0])) {
    r.norm = norm;
    r.x = before.inputs[0];
    r.norm_weight = before.inputs[1];
  }
  return r;
}

// What stands in the way of one pass over q, k and the cache.
std::string pair_obstacle(const Rewriter& rewriter, const Rotated& k, Value q_value) {
  const auto q = rotated(rewriter, q_value);
  if (!q) {
    if (!rewriter.old().node(q_value).is<Rope>()) return "the attention reads a query without a rope";
    return shared_reason(rewriter.old(), q_value);
  }
  if (!(q->rope == k.rope)) return "the ropes of q and k differ";
  if (q->inv_freq != k.inv_freq || q->positions != k.positions)
    return "q and k are rotated by different frequencies or positions";
  if (q->norm.has_value() != k.norm.has_value()) return "only one of q and k has a norm that feeds the rope alone";
  if (q->norm && !(*q->norm == *k.norm)) return "the norms of q and k differ";
  return {};
}

// q is the rope that shares positions and frequencies with k and is read by the attention over the
// new cache.
std::optional<Value> query_of(const Rewriter& rewriter, const Rewriter::Site& s, const Rotated& k,
                              const FusionNotes& notes) {
  const Graph& old = rewriter.old();
  for (std::size_t i = 0; i < old.nodes().size(); ++i) {
    const Node& n = old.nodes()[i];
    if (!n.is<Attention>() || n.inputs[1] != Value{s.index, 0}) continue;
    std::string why = pair_obstacle(rewriter, k, n.inputs[0]);
    // The body must read only what stands before the append.
    if (why.empty() && n.inputs[0].node > s.index) why = "q is rotated after the append";
    if (why.empty()) return n.inputs[0];
    notes.missed(s, [&] { return std::move(why); });
    return std::nullopt;
  }
  notes.missed(s, [] { return "no attention reads the cache"; });
  return std::nullopt;
}

}  // namespace

bool fuse_rope_append(Graph& graph, const PassContext& context) {
  const FusionNotes notes(context, "fuse_rope_append");
  Rewriter rewriter(graph);
  // The attention reads q after the fused node: its rope, which stands before the append, is
  // replaced when the attention is reached.
  std::map<std::int32_t, Value> fused_q;  // old rope node -> new value
  return rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    if (s.node.is<Attention>()) {
      const auto it = fused_q.find(s.node.inputs[0].node);
      if (it == fused_q.end()) return {};
      std::vector<Value> operands(s.inputs.begin(), s.inputs.end());
      operands[0] = it->second;
      return {s.b.graph().add(*s.node.def, s.node.attrs, std::move(operands), s.node.origin)};
    }
    if (!s.node.is<KvAppend>()) return {};
    const auto k = rotated(rewriter, s.node.inputs[1]);
    if (!k) {
      if (rewriter.producer(s.node, 1).is<Rope>())
        notes.missed(s, [&] { return shared_reason(rewriter.old(), s.node.inputs[1]); });
      return {};
    }
    const auto q_value = query_of(rewriter, s, *k, notes);
    if (!q_value) return {};
    const Rotated q = *rotated(rewriter, *q_value);
    RopeAppend op{.head_dim = k->rope.head_dim,
                  .rotary_dim = k->rope.rotary_dim,
                  .style = k->rope.style,
                  .magnitude = k->rope.magnitude};
    // cache, q, k, v, seq_start, past, slot, pages, inv_freq, positions
    std::vector<Value> operands = {s.inputs[0],
                                   rewriter.now(q.x),
                                   rewriter.now(k->x),
                                   s.inputs[2],
                                   s.inputs[3],
                                   s.inputs[4],
                                   s.inputs[5],
                                   s.inputs[6],
                                   rewriter.now(k->inv_freq),
                                   rewriter.now(k->positions)};
    if (k->norm) {
      op.norm = true;
      op.eps = k->norm->eps;
      op.weight_offset = k->norm->weight_offset;
      operands.push_back(rewriter.now(q.norm_weight));
      operands.push_back(rewriter.now(k->norm_weight));
    }
    const Value fused = s.b.emit(op, std::move(operands));
    fused_q[q_value->node] = fused;
    notes.fused(RopeAppend::name, s);
    return {s.b.result(fused, 1)};
  });
}

}  // namespace rlx
