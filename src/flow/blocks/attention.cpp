#include "flow/blocks/attention.h"

#include "base/error.h"
#include "ops/block.h"
#include "ops/dense_attention.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/shape_ops.h"

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

Value state_form(FlowCtx& ctx, const FlowState& state, const AttentionSpec& s) {
  const RopeSlot& rope = state.rope.need(ctx, s.rope);
  const std::int64_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
  const Value cache = ctx.state(fmt::format("kv.{}", s.layer), Shape::kv_state(s.kv_heads, s.head_dim, DType::f32));
  std::vector<Value> operands = {state.hidden.need(ctx),
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
  return ctx.hir().emit(attributes(s, rope), std::move(operands));
}

// One layer's attention over tensors: the same products, norms and rotation as the body of SelfAttention (ops/block.h).
class FunctionalAttention {
 public:
  FunctionalAttention(FlowCtx& ctx, FlowState& state, const AttentionSpec& spec)
      : ctx_(ctx), state_(state), s_(spec), bindings_(state.decode.need(ctx)), b_(ctx.hir()) {
    const auto layers = static_cast<std::int64_t>(bindings_.past.size());
    if (s_.layer < 0 || s_.layer >= layers)
      fail(ErrorCode::invalid_argument,
           "the stage \"{}\" needs the past of layer {}: the decode bindings have {} layers", ctx.stage(), s_.layer,
           layers);
  }

  Value run() {
    const Value x = state_.hidden.need(ctx_);
    const std::int64_t q_columns = s_.heads * s_.head_dim, kv_columns = s_.kv_heads * s_.head_dim;
    const Value q = rotated(normed(product(x, s_.wq, s_.bq, {q_columns, s_.hidden}), s_.q_norm));
    const Value k = rotated(normed(product(x, s_.wk, s_.bk, {kv_columns, s_.hidden}), s_.k_norm));
    const Value v = product(x, s_.wv, s_.bv, {kv_columns, s_.hidden});
    const DecodeBindings::Past& past = bindings_.past[static_cast<std::size_t>(s_.layer)];
    const Value keys = rows_of(joined("present_k", past.k, k)), values = rows_of(joined("present_v", past.v, v));
    std::vector<Value> operands = {q, keys, values, bindings_.q_start, bindings_.k_start};
    if (bindings_.mask) operands.push_back(bindings_.mask);
    const DenseAttention attention{.heads = static_cast<std::int32_t>(s_.heads),
                                   .kv_heads = static_cast<std::int32_t>(s_.kv_heads),
                                   .scale = s_.scale,
                                   .softcap = s_.softcap,
                                   .window = static_cast<std::int32_t>(s_.window),
                                   .causal = true,
                                   .bias = bindings_.mask ? AttentionBias::pairs : AttentionBias::none};
    return product(b_.emit(attention, std::move(operands)), s_.wo, s_.bo, {s_.hidden, q_columns});
  }

 private:
  struct Size {
    std::int64_t out, in;
  };

  Value product(Value x, const std::string& weight, const std::string& bias, Size size) {
    const Value y = b_(Linear{}, x, ctx_.load_matrix(weight, size.out, size.in));
    return bias.empty() ? y : b_(Add{}, y, ctx_.load_vector(bias, size.out));
  }

  Value normed(Value x, const std::string& weight) {
    if (weight.empty()) return x;
    const RmsNorm norm{.eps = s_.eps,
                       .weight_offset = s_.weight_offset,
                       .group = static_cast<std::int32_t>(s_.head_dim)};
    return b_(norm, x, ctx_.load_vector(weight, s_.head_dim));
  }

  Value rotated(Value x) {
    const RopeSlot& rope = state_.rope.need(ctx_, s_.rope);
    if (!s_.use_rope) return x;
    const Rope op{.head_dim = static_cast<std::int32_t>(s_.head_dim),
                  .rotary_dim = static_cast<std::int32_t>(rope.rotary_dim),
                  .style = rope.style,
                  .magnitude = rope.magnitude};
    return b_(op, x, rope.inv_freq, bindings_.positions);
  }

  // Past and new of all sequences, a result of the graph: [batch, kv_heads, past_seq + seq, head_dim].
  Value joined(std::string_view name, Value past, Value rows) {
    const Reshape by_sequence{.dims = {sym::batch, sym::seq, s_.kv_heads, s_.head_dim}};
    const Value fresh = b_(Transpose{.axes = {0, 2, 1, 3}}, b_(by_sequence, rows));
    const Value present = b_(Concat{.axis = 2}, past, fresh);
    state_.results.push_back({fmt::format("{}.{}", name, s_.layer), present});
    return present;
  }

  // [batch * (past_seq + seq), kv_heads * head_dim]
  Value rows_of(Value present) {
    const Dim keys = Dim(sym::batch) * (Dim(sym::past_seq) + Dim(sym::seq));
    return b_(Reshape{.dims = {keys, s_.kv_heads * s_.head_dim}}, b_(Transpose{.axes = {0, 2, 1, 3}}, present));
  }

  FlowCtx& ctx_;
  FlowState& state_;
  const AttentionSpec& s_;
  const DecodeBindings& bindings_;
  Builder& b_;
};

}  // namespace

FlowStage self_attention(AttentionSpec spec) {
  return [s = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    state.hidden.set(state.decode.has() ? FunctionalAttention(ctx, state, s).run() : state_form(ctx, state, s));
  };
}

}  // namespace rlx
