#include "compiler/passes/common_form.h"

#include "compiler/lower.h"
#include "ir/rewrite.h"

namespace rlx {

bool common_form(Graph& graph, const PassContext& context) {
  bool changed = false;
  // A body may hold fused ops itself.
  for (;;) {
    Rewriter rewriter(graph);
    const bool again = rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
      if (s.node.def->decompose == nullptr || s.node.def->has(Trait::source)) return {};
      const KernelChoice choice =
          choose_kernel(graph, s.node, context.options.dispatch, context.backend);
      if (choice.kernel != nullptr && !choice.common) return {};
      if (context.report != nullptr)
        context.report->rows.push_back(
            {s.node.origin.empty() ? fmt::format("%{}", s.index) : s.node.origin,
             std::string(s.node.def->name), DispatchKind::common, "", choice.reason});
      return expand(s.node, s.inputs, s.b);
    });
    if (!again) return changed;
    changed = true;
  }
}

}  // namespace rlx
