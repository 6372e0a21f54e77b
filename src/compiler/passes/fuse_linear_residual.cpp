#include "compiler/passes/fuse_linear_residual.h"

#include "compiler/passes/fusion_notes.h"
#include "ir/rewrite.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"

namespace rlx {

namespace {

std::string residual_obstacle(const Rewriter& rewriter, Value result, const Linear& linear, const Shape& other) {
  const Shape& sum = rewriter.old().shape(result);
  if (linear.residual) return "the linear has a residual already";
  if (!(other == sum)) return fmt::format("a residual of {} on {}", other.text(), sum.text());
  return rewriter.single_use(result) ? std::string() : shared_reason(rewriter.old(), result);
}

}  // namespace

bool fuse_linear_residual(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph);
  const FusionNotes notes(context, "fuse_linear_residual");
  return rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    if (!s.node.is<Add>()) return {};
    std::string first;  // why the first product that could take the sum did not
    for (std::size_t i = 0; i < 2; ++i) {
      auto linear = rewriter.producer(s.node, i).as<Linear>();
      if (!linear) continue;
      std::string why =
          residual_obstacle(rewriter, s.node.inputs[i], *linear, rewriter.old().shape(s.node.inputs[1 - i]));
      if (!why.empty()) {
        if (first.empty()) first = std::move(why);
        continue;
      }
      std::vector<Value> operands = rewriter.now(rewriter.producer(s.node, i).inputs);
      operands.push_back(s.inputs[1 - i]);
      linear->residual = true;
      notes.fused(Linear::name, s);
      return {s.b.emit(*linear, std::move(operands))};
    }
    if (!first.empty()) notes.missed(s, [&] { return std::move(first); });
    return {};
  });
}

}  // namespace rlx
