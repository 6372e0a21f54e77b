#include "flow/blocks/moe.h"

#include "ops/arithmetic.h"
#include "ops/block.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduction.h"

namespace rlx {
namespace {

// The weights of all experts as one param [experts, out, in]: as stored, or joined by reference.
Value load_experts(FlowCtx& ctx, const ExpertTensors& t, const StackShape& shape) {
  const std::size_t place = t.name.find("{}");
  if (place == std::string::npos && t.stored_rows == 0) return ctx.load_stack(t.name, shape);
  const auto part_of = [&](std::int64_t e) {
    MatrixPart part{t.name, 0, t.stored_rows > 0 ? t.stored_rows : shape.out, 0, t.first_row};
    if (place == std::string::npos) {
      part.matrices = shape.count;
      part.matrix = e;
    } else {
      part.key.replace(place, 2, std::to_string(e));
    }
    return part;
  };
  std::string name = t.name;
  if (place != std::string::npos) name.replace(place, 2, "all");
  if (t.stored_rows > 0) name += fmt::format(".rows_{}", t.first_row);
  return ctx.load_stack(name, part_of, shape);
}

Value shared_experts(FlowCtx& ctx, const MoeSpec& s, Value x) {
  Builder& b = ctx.hir();
  const Value gate = ctx.load_matrix(s.shared_gate, s.shared_inner, s.hidden);
  const Value up = ctx.load_matrix(s.shared_up, s.shared_inner, s.hidden);
  const Value down = ctx.load_matrix(s.shared_down, s.hidden, s.shared_inner);
  const Value y = b(GatedMlp{.act = s.act}, x, gate, up, down);
  if (s.shared_router.empty()) return y;
  const WeightRef* stored = ctx.weights().find(s.shared_router);
  const Value logit =
      stored && stored->shape.size() == 1
          ? b(Reduce{.keep_dims = true}, b(Mul{}, x, ctx.load_vector(s.shared_router, s.hidden)))
          : b(Linear{}, x, ctx.load_matrix(s.shared_router, 1, s.hidden));
  return b(Mul{}, y, b(Unary{.fn = UnaryFunction::sigmoid}, logit));
}

}  // namespace

FlowStage moe_mlp(MoeSpec spec) {
  return [s = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    Builder& b = ctx.hir();
    const Value x = state.hidden.need(ctx);
    const MoeRoute& r = s.route;
    const MoeMlp op{.act = s.act,
                    .k = r.k,
                    .scoring = r.scoring,
                    .normalize = r.normalize,
                    .bias = !s.choice_bias.empty(),
                    .factor = r.factor,
                    .groups = r.groups,
                    .group_limit = r.group_limit,
                    .group_top = r.group_top};
    std::vector<Value> operands = {x, ctx.load_matrix(s.router, s.experts, s.hidden),
                                   load_experts(ctx, s.gate, {s.experts, s.inner, s.hidden}),
                                   load_experts(ctx, s.up, {s.experts, s.inner, s.hidden}),
                                   load_experts(ctx, s.down, {s.experts, s.hidden, s.inner})};
    if (op.bias) operands.push_back(ctx.load_vector(s.choice_bias, s.experts));
    const Value routed = b.emit(op, std::move(operands));
    state.hidden.set(s.shared_inner > 0 ? b(Add{}, routed, shared_experts(ctx, s, x)) : routed);
  };
}

}  // namespace rlx
