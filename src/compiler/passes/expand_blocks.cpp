#include "compiler/passes/expand_blocks.h"

#include "ir/rewrite.h"

namespace rlx {

bool expand_blocks(Graph& graph, const PassContext&) {
  bool changed = false;
  // A body may hold blocks itself; each round opens one level.
  while (Rewriter(graph).run([](const Rewriter::Site& s) {
    return s.node.def->has(Trait::composite) ? expand(s.node, s.inputs, s.b) : Rewriter::Answer{};
  }))
    changed = true;
  if (graph.stage == Stage::hir) {
    graph.stage = Stage::mir;
    changed = true;
  }
  return changed;
}

}  // namespace rlx
