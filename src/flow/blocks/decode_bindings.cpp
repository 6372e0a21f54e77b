#include "flow/blocks/decode_bindings.h"

#include "ops/constant.h"
#include "ops/shape_ops.h"

namespace rlx {

FlowStage decode_bindings(const DecodeBindingsSpec& spec) {
  return [spec](FlowCtx& ctx, FlowState& state) {
    const Dim batch = sym::batch, seq = sym::seq, past = sym::past_seq;
    Builder& b = ctx.hir();
    DecodeBindings bindings;
    bindings.positions = ctx.wrap(state.inputs.need(ctx, "positions"), Shape({batch * seq}, DType::i32));
    // Every sequence has as many rows, so the starts are made of sizes alone: once per session, not per step.
    bindings.q_start = b(Iota{.dims = {batch + Dim(1)}, .step = seq});
    bindings.k_start = b(Iota{.dims = {batch + Dim(1)}, .step = past + seq});
    const Shape shape({batch, spec.kv_heads, past, spec.head_dim}, DType::f32);
    for (std::int64_t i = 0; i < spec.layers; ++i) {
      const Value k = ctx.input(fmt::format("past_k.{}", i), shape);
      bindings.past.push_back({k, ctx.input(fmt::format("past_v.{}", i), shape)});
    }
    if (spec.mask) {
      const Value mask = ctx.input("mask", Shape({seq, past + seq}, DType::f32));
      // Attention looks a pair up by the query's position, and new tokens stand behind the past.
      bindings.mask = b(Pad{.axis = 1, .before = past}, b(Reshape{.dims = {1, seq, past + seq}}, mask));
    }
    state.decode.set(std::move(bindings));
  };
}

}  // namespace rlx
