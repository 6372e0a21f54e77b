#include "compiler/passes/matmul_to_linear.h"

#include "compiler/passes/fusion_notes.h"
#include "ir/source.h"
#include "ops/matmul.h"
#include "ops/product.h"
#include "ops/quant.h"

namespace rlx {
namespace {

std::string product_obstacle(const Rewriter& rewriter, const Node& n, const BatchedMatmul& product) {
  const Shape &a = rewriter.old().shape(n.inputs[0]), &b = rewriter.old().shape(n.inputs[1]);
  if (b.rank() != 2) return fmt::format("a weight of {}: expected two dims", b.text());
  if (a.dtype != DType::f32) return fmt::format("an input of {}", name(a.dtype));
  return product.transpose_a ? "the input is transposed" : "";
}

}  // namespace

bool matmul_to_linear(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph);
  const FusionNotes notes(context, "matmul_to_linear");
  return rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    const auto product = s.node.as<BatchedMatmul>();
    if (!product || !rewriter.producer(s.node, 1).is<Param>()) return {};
    std::string why = product_obstacle(rewriter, s.node, *product);
    if (!why.empty()) {
      notes.missed(s, [&] { return std::move(why); });
      return {};
    }
    notes.fused(Linear::name, s);
    const Value w = product->transpose_b ? s.inputs[1] : s.b(TransposeWeight{}, s.inputs[1]);
    return {s.b(Linear{}, s.inputs[0], w)};
  });
}

}  // namespace rlx
