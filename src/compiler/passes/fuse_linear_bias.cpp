#include "compiler/passes/fuse_linear_bias.h"

#include "ir/rewrite.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"

namespace rlx {
namespace {

// The linear behind operand i when the fusion may take it over: no other reader, nothing applied
// after the sum yet.
std::optional<Linear> plain_linear(const Rewriter& rewriter, const Node& node, std::size_t i) {
  const auto linear = rewriter.producer(node, i).as<Linear>();
  if (!linear || linear->residual || linear->act != Act::none ||
      !rewriter.single_use(node.inputs[i]))
    return std::nullopt;
  return linear;
}

Rewriter::Answer fuse_bias(const Rewriter& rewriter, const Rewriter::Site& s) {
  for (std::size_t i = 0; i < 2; ++i) {
    auto linear = plain_linear(rewriter, s.node, i);
    if (!linear || linear->bias) continue;
    const Shape& bias = rewriter.old().shape(s.node.inputs[1 - i]);
    const Shape& sum = rewriter.old().shape(s.node.inputs[i]);
    if (bias.rank() != 1 || !(bias.dim(0) == sum.dim(-1)) || bias.dtype != DType::f32) continue;
    std::vector<Value> operands = rewriter.now(rewriter.producer(s.node, i).inputs);
    operands.push_back(s.inputs[1 - i]);
    linear->bias = true;
    return {s.b.emit(*linear, std::move(operands))};
  }
  return {};
}

}  // namespace

bool fuse_linear_bias(Graph& graph, const PassContext&) {
  bool changed = false;
  Rewriter bias(graph);
  changed |= bias.run([&](const Rewriter::Site& s) {
    return s.node.is<Add>() ? fuse_bias(bias, s) : Rewriter::Answer{};
  });
  Rewriter activation(graph);
  changed |= activation.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    const auto act = s.node.as<Activation>();
    if (!act) return {};
    auto linear = plain_linear(activation, s.node, 0);
    if (!linear) return {};
    linear->act = act->act;
    return {s.b.emit(*linear, activation.now(activation.producer(s.node, 0).inputs))};
  });
  return changed;
}

}  // namespace rlx
