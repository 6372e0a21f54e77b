#include "compiler/passes/fuse_product_input.h"

#include "compiler/passes/fusion_notes.h"
#include "ops/elementwise.h"
#include "ops/fused.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/quant.h"

namespace rlx {
namespace {

// A product in the general form.
std::optional<FusedLinear> as_fused(const Node& n) {
  if (const auto l = n.as<Linear>())
    return FusedLinear{.weights = 1, .biases = l->bias, .act = l->act, .residual = l->residual};
  if (const auto g = n.as<GatedLinear>()) return FusedLinear{.weights = 2, .act = g->act, .gated = true};
  return n.as<FusedLinear>();
}

// What makes the input of a product, seen from the product up to the value that it starts from.
struct ProductInput {
  Value x, norm_weight;
  bool found = false;
};

void take_norm(FusedLinear& op, const Node& n, float eps, float offset, ProductInput& in) {
  op.norm = true;
  op.eps = eps;
  op.weight_offset = offset;
  in = {n.inputs[0], n.inputs[1], true};
}

// Follows the input while its makers have no other reader.
ProductInput follow(const Rewriter& rewriter, const Rewriter::Site& s, FusedLinear& op, const FusionNotes& notes) {
  const Graph& old = rewriter.old();
  ProductInput in{s.node.inputs[0], {}, false};
  for (int step = 0; step < 2 && !op.norm; ++step) {
    const Node& n = old.node(in.x);
    const auto norm = n.as<RmsNorm>();
    const auto norm_quantize = n.as<RmsNormQuantize>();
    const auto cast = n.as<Cast>();
    const bool quantize = n.is<QuantizeRows>() && step == 0;
    const bool narrow =
        cast && cast->to == DType::bf16 && step == 0 && old.shape(n.inputs[0]).dtype == DType::f32;
    const bool whole_norm = norm && norm->group == 0 && op.to != DType::xq8;
    if (!whole_norm && !(norm_quantize && step == 0) && !quantize && !narrow) break;
    if (!rewriter.single_use(in.x)) {
      notes.missed(s, [&] { return shared_reason(old, in.x); });
      break;
    }
    if (norm_quantize || quantize) op.to = DType::xq8;
    if (narrow) op.to = DType::bf16;
    if (norm_quantize)
      take_norm(op, n, norm_quantize->eps, norm_quantize->weight_offset, in);
    else if (whole_norm)
      take_norm(op, n, norm->eps, norm->weight_offset, in);
    else
      in = {n.inputs[0], {}, true};
  }
  return in;
}

}  // namespace

bool fuse_product_input(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph);
  const FusionNotes notes(context, "fuse_product_input");
  return rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    auto op = as_fused(s.node);
    if (!op || op->prologue()) return {};
    const ProductInput in = follow(rewriter, s, *op, notes);
    if (!in.found) return {};
    std::vector<Value> operands(s.inputs.begin(), s.inputs.end());
    operands[0] = rewriter.now(in.x);
    if (op->norm) operands.insert(operands.begin() + 1 + op->weights, rewriter.now(in.norm_weight));
    const Value made = s.b.emit(*op, std::move(operands));
    notes.fused(FusedLinear::name, s);
    Rewriter::Answer answer;
    for (std::size_t k = 0; k < s.node.results.size(); ++k)
      answer.push_back(s.b.result(made, static_cast<int>(k)));
    return answer;
  });
}

}  // namespace rlx
