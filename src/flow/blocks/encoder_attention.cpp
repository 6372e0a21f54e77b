#include "flow/blocks/encoder_attention.h"

#include "flow/blocks/linear.h"
#include "ops/dense_attention.h"

namespace rlx {

FlowStage encoder_attention(EncoderAttentionSpec spec) {
  return [s = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    const Value x = state.hidden.need(ctx);
    const Value source = s.source.empty() ? x : state.streams.need(ctx, s.source);
    const Value starts = state.inputs.need(ctx, s.starts);
    const Value source_starts = s.source.empty() ? starts : state.inputs.need(ctx, s.source_starts);
    const std::int64_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
    std::vector<Value> operands = {emit_linear(ctx, x, {.weight = s.wq, .bias = s.bq, .in = s.hidden, .out = q}),
                                   emit_linear(ctx, source, {.weight = s.wk, .bias = s.bk, .in = s.hidden, .out = kv}),
                                   emit_linear(ctx, source, {.weight = s.wv, .bias = s.bv, .in = s.hidden, .out = kv}),
                                   starts, source_starts};
    if (!s.position_bias.empty()) operands.push_back(state.nodes.need(ctx, s.position_bias));
    const DenseAttention attention{.heads = static_cast<std::int32_t>(s.heads),
                                   .kv_heads = static_cast<std::int32_t>(s.kv_heads),
                                   .scale = s.scale,
                                   .softcap = s.softcap,
                                   .window = static_cast<std::int32_t>(s.window),
                                   .causal = s.causal,
                                   .bias = s.position_bias.empty() ? AttentionBias::none : AttentionBias::distances};
    const Value mixed = ctx.hir().emit(attention, std::move(operands));
    state.hidden.set(emit_linear(ctx, mixed, {.weight = s.wo, .bias = s.bo, .in = q, .out = s.hidden}));
  };
}

}  // namespace rlx
