#include "compiler/passes/fuse_gated_linear.h"

#include "compiler/passes/fusion_notes.h"
#include "ir/rewrite.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"

namespace rlx {

namespace {

// Why a product with an activation times a plain product of the same kind is not one gated product; empty when it is.
std::string obstacle(const Rewriter& rewriter, const Node& mul, const Node& gate, const Node& up) {
  const Linear g = *gate.as<Linear>(), u = *up.as<Linear>();
  if (g.bias || u.bias) return "a gate with a bias";
  if (g.residual || u.residual) return "a gate with a residual";
  if (gate.inputs[0] != up.inputs[0]) return "gate and up read different values";
  const Shape &a = rewriter.old().shape(gate.inputs[1]), &b = rewriter.old().shape(up.inputs[1]);
  // One kernel reads both weights: one storage type and one shape.
  if (!(a == b)) return fmt::format("weights of two types: {} and {}", a.text(), b.text());
  for (Value v : mul.inputs)
    if (!rewriter.single_use(v)) return shared_reason(rewriter.old(), v);
  return {};
}

}  // namespace

bool fuse_gated_linear(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph);
  const FusionNotes notes(context, "fuse_gated_linear");
  return rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    if (!s.node.is<Mul>()) return {};
    for (std::size_t i = 0; i < 2; ++i) {
      const Node& gate = rewriter.producer(s.node, i);
      const Node& up = rewriter.producer(s.node, 1 - i);
      const auto g = gate.as<Linear>(), u = up.as<Linear>();
      if (!g || !u || g->act == Act::none || u->act != Act::none) continue;
      std::string why = obstacle(rewriter, s.node, gate, up);
      if (!why.empty()) {
        notes.missed(s, [&] { return std::move(why); });
        continue;
      }
      notes.fused(GatedLinear::name, s);
      return {s.b(GatedLinear{.act = g->act}, rewriter.now(gate.inputs[0]),
                  rewriter.now(gate.inputs[1]), rewriter.now(up.inputs[1]))};
    }
    return {};
  });
}

}  // namespace rlx
