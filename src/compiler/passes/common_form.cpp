#include "compiler/passes/common_form.h"

#include <algorithm>

#include "compiler/lower.h"
#include "compiler/passes/fusion_notes.h"
#include "ir/rewrite.h"

namespace rlx {
namespace {

// A fused op that becomes its body again is not in the graph: the report counts it no more.
void forget(FusionReport& report, const Rewriter::Site& s) {
  const std::string label = report_label(s.node, s.index);
  auto& all = report.fused;
  const auto it = std::find_if(all.begin(), all.end(), [&](const FusedNode& f) {
    return f.op == s.node.def->name && f.origin == label;
  });
  if (it != all.end()) all.erase(it);
}

}  // namespace

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
      if (context.fusion != nullptr) forget(*context.fusion, s);
      return expand(s.node, s.inputs, s.b);
    });
    if (!again) return changed;
    changed = true;
  }
}

}  // namespace rlx
