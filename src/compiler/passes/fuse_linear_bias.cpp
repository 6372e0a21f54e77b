#include "compiler/passes/fuse_linear_bias.h"

#include "compiler/passes/fusion_notes.h"
#include "ir/rewrite.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"

namespace rlx {
namespace {

// Why a linear cannot take over what is applied to its result; empty when it can.
std::string taken(const Rewriter& rewriter, Value result, const Linear& linear) {
  if (linear.residual) return "the linear has a residual already";
  if (linear.act != Act::none) return "the linear has an activation already";
  return rewriter.single_use(result) ? std::string() : shared_reason(rewriter.old(), result);
}

// A vector over the columns, with or without leading dims of 1: what a bias looks like.
bool is_row(const Shape& s) {
  for (int i = 0; i + 1 < s.rank(); ++i)
    if (s.dim(i).constant() != 1) return false;
  return s.rank() >= 1;
}

std::string bias_obstacle(const Rewriter& rewriter, Value result, const Linear& linear, const Shape& bias) {
  const Shape& sum = rewriter.old().shape(result);
  if (linear.bias) return "the linear has a bias already";
  if (bias.rank() != 1) return fmt::format("a bias of {}: expected one dim", bias.text());
  if (!(bias.dim(0) == sum.dim(-1)))
    return fmt::format("a bias of {} for {} columns", bias.text(), sum.dim(-1).text());
  if (bias.dtype != DType::f32) return fmt::format("a bias of {}", name(bias.dtype));
  return taken(rewriter, result, linear);
}

Rewriter::Answer fuse_bias(const Rewriter& rewriter, const Rewriter::Site& s, const FusionNotes& notes) {
  for (std::size_t i = 0; i < 2; ++i) {
    auto linear = rewriter.producer(s.node, i).as<Linear>();
    const Shape& bias = rewriter.old().shape(s.node.inputs[1 - i]);
    if (!linear || !is_row(bias)) continue;
    std::string why = bias_obstacle(rewriter, s.node.inputs[i], *linear, bias);
    if (!why.empty()) {
      notes.missed(s, [&] { return std::move(why); });
      continue;
    }
    std::vector<Value> operands = rewriter.now(rewriter.producer(s.node, i).inputs);
    operands.push_back(s.inputs[1 - i]);
    linear->bias = true;
    notes.fused(Linear::name, s);
    return {s.b.emit(*linear, std::move(operands))};
  }
  return {};
}

}  // namespace

bool fuse_linear_bias(Graph& graph, const PassContext& context) {
  bool changed = false;
  const FusionNotes notes(context, "fuse_linear_bias");
  Rewriter bias(graph);
  changed |= bias.run([&](const Rewriter::Site& s) {
    return s.node.is<Add>() ? fuse_bias(bias, s, notes) : Rewriter::Answer{};
  });
  Rewriter activation(graph);
  changed |= activation.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    const auto act = s.node.as<Activation>();
    if (!act) return {};
    auto linear = activation.producer(s.node, 0).as<Linear>();
    if (!linear) return {};
    std::string why = taken(activation, s.node.inputs[0], *linear);
    if (!why.empty()) {
      notes.missed(s, [&] { return std::move(why); });
      return {};
    }
    linear->act = act->act;
    notes.fused(Linear::name, s);
    return {s.b.emit(*linear, activation.now(activation.producer(s.node, 0).inputs))};
  });
  return changed;
}

}  // namespace rlx
