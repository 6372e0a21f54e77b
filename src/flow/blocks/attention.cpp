#include "flow/blocks/attention.h"

#include "ops/block.h"

namespace rlx {
namespace {

/// The page table is one state that all layers share.
Value page_table(FlowCtx& ctx) {
  const Value known = ctx.hir().graph().find_source("pages");
  return known ? known : ctx.state("pages", Shape::page_table());
}

void load_biases(FlowCtx& ctx, const AttentionSpec& s, std::vector<Value>& operands) {
  const std::int64_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
  if (!s.bq.empty()) {
    operands.push_back(ctx.load_vector(s.bq, q));
    operands.push_back(ctx.load_vector(s.bk, kv));
    operands.push_back(ctx.load_vector(s.bv, kv));
  }
  if (!s.bo.empty()) operands.push_back(ctx.load_vector(s.bo, s.hidden));
}

SelfAttention attributes(const AttentionSpec& s, const RopeSlot& rope) {
  return SelfAttention{.heads = static_cast<std::int32_t>(s.heads),
                       .head_dim = static_cast<std::int32_t>(s.head_dim),
                       .rotary_dim = static_cast<std::int32_t>(rope.rotary_dim),
                       .scale = s.scale,
                       .softcap = s.softcap,
                       .window = static_cast<std::int32_t>(s.window),
                       .magnitude = rope.magnitude,
                       .eps = s.eps,
                       .weight_offset = s.weight_offset,
                       .style = rope.style,
                       .rope = s.use_rope,
                       .qkv_bias = !s.bq.empty(),
                       .out_bias = !s.bo.empty(),
                       .qk_norm = !s.q_norm.empty()};
}

}  // namespace

FlowStage self_attention(AttentionSpec spec) {
  return [s = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    const Value x = state.hidden.need(ctx);
    const RopeSlot& rope = state.rope.need(ctx, s.rope);
    const std::int64_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
    const Value cache = ctx.state(fmt::format("kv.{}", s.layer),
                                  Shape::kv_state(s.kv_heads, s.head_dim, DType::f32));
    std::vector<Value> operands = {x,
                                   cache,
                                   state.inputs.need(ctx, "seq_start"),
                                   state.inputs.need(ctx, "past"),
                                   state.inputs.need(ctx, "slot"),
                                   page_table(ctx),
                                   state.inputs.need(ctx, "positions"),
                                   rope.inv_freq,
                                   ctx.load_matrix(s.wq, q, s.hidden),
                                   ctx.load_matrix(s.wk, kv, s.hidden),
                                   ctx.load_matrix(s.wv, kv, s.hidden),
                                   ctx.load_matrix(s.wo, s.hidden, q)};
    load_biases(ctx, s, operands);
    if (!s.q_norm.empty()) {
      operands.push_back(ctx.load_vector(s.q_norm, s.head_dim));
      operands.push_back(ctx.load_vector(s.k_norm, s.head_dim));
    }
    state.hidden.set(ctx.hir().emit(attributes(s, rope), std::move(operands)));
  };
}

}  // namespace rlx
