#include "models/decoder.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace rlx {
namespace {

constexpr std::string_view kDivisors = "rope_freqs.weight";

std::vector<float> read_divisors(FlowCtx& ctx, std::int64_t n) {
  if (!ctx.weights().find(kDivisors)) return {};
  std::vector<float> divisors = ctx.read_vector(kDivisors, n);
  for (const float d : divisors)
    if (!std::isfinite(d) || d <= 0.0f)
      fail(ErrorCode::format, "{}: {}: expected numbers above 0, found {}", ctx.weights().origin(),
           kDivisors, d);
  return divisors;
}

}  // namespace

void decoder_inputs(ModelFlow& flow, const FlowInput& in) {
  if (in.form != DecodeForm::state) {
    const Dim rows = Dim(sym::batch) * Dim(sym::seq);
    flow.input("tokens", Shape({rows}, DType::i32))
        .input("positions", Shape({rows}, DType::i32))
        .input("out_rows", Shape({sym::out_rows}, DType::i32))
        .stage("decode_bindings", decode_bindings({.layers = in.config.layers,
                                                   .kv_heads = in.config.kv_heads,
                                                   .head_dim = in.config.head_dim,
                                                   .mask = in.form == DecodeForm::functional_masked}));
    return;
  }
  flow.input("tokens", Shape({sym::rows}, DType::i32))
      .input("positions", Shape({sym::rows}, DType::i32))
      .input("seq_start", Shape({Dim(sym::batch) + Dim(1)}, DType::i32))
      .input("past", Shape({sym::batch}, DType::i32))
      .input("slot", Shape({sym::batch}, DType::i32))
      .input("out_rows", Shape({sym::out_rows}, DType::i32));
}

FlowStage decoder_rope(const FlowInput& in, const RopeConfig& rope, std::string slot) {
  const DecoderConfig& c = in.config;
  return [rope, slot = std::move(slot), rotary = c.rotary_dim, context = c.context,
          session = in.session, style = c.rope_style,
          stored = c.format == ConfigFormat::gguf](FlowCtx& ctx, FlowState& state) {
    const std::vector<float> divisors =
        stored ? read_divisors(ctx, rotary / 2) : std::vector<float>{};
    if (rope.scaling == RopeScaling::longrope && stored) {
      ctx.read_vector("rope_factors_short.weight", rotary / 2);
      ctx.read_vector("rope_factors_long.weight", rotary / 2);
    }
    RopeTable table = rope_table(rope, rotary, context, session, divisors);
    rope_frequencies({.name = slot,
                      .inv_freq = std::move(table.inv_freq),
                      .magnitude = table.magnitude,
                      .style = style})(ctx, state);
  };
}

FlowStage embed_tokens(const FlowInput& in) {
  const DecoderConfig& c = in.config;
  return token_embedding({.weight = in.names.weight("embedding"),
                          .vocab = c.vocab,
                          .hidden = c.hidden,
                          .scale = static_cast<float>(c.embedding_scale)});
}

FlowStage decoder_norm(const FlowInput& in, std::string_view role, std::int64_t layer) {
  const DecoderConfig& c = in.config;
  return rms_norm({.weight = in.names.weight(role, layer),
                   .size = c.hidden,
                   .eps = static_cast<float>(c.eps),
                   .weight_offset = static_cast<float>(c.norm_offset)});
}

FlowStage decoder_attention(const FlowInput& in, std::int64_t layer, std::string_view rope) {
  const DecoderConfig& c = in.config;
  const TensorNames& names = in.names;
  AttentionSpec s;
  s.layer = layer;
  s.hidden = c.hidden;
  s.heads = c.heads;
  s.kv_heads = c.kv_heads;
  s.head_dim = c.head_dim;
  s.scale = static_cast<float>(c.attention_scale);
  s.window = c.window_of(layer);
  s.rope = rope;
  s.eps = static_cast<float>(c.eps);
  s.weight_offset = static_cast<float>(c.norm_offset);
  s.wq = names.weight("wq", layer);
  s.wk = names.weight("wk", layer);
  s.wv = names.weight("wv", layer);
  s.wo = names.weight("wo", layer);
  if (c.qkv_bias) {
    s.bq = names.bias("wq", layer);
    s.bk = names.bias("wk", layer);
    s.bv = names.bias("wv", layer);
  }
  if (c.out_bias) s.bo = names.bias("wo", layer);
  if (c.qk_norm) {
    s.q_norm = names.weight("q_norm", layer);
    s.k_norm = names.weight("k_norm", layer);
  }
  return self_attention(std::move(s));
}

namespace {

/// The tensor of a role: hub files name a tensor of all experts without ".weight".
std::string stored_name(const WeightSource& weights, const TensorNames& names,
                        std::string_view role, std::int64_t layer) {
  const std::string bare = names.name(role, layer);
  return weights.find(bare) ? bare : bare + ".weight";
}

FlowStage expert_mlp(const FlowInput& in, std::int64_t layer) {
  const DecoderConfig& c = in.config;
  const TensorNames& names = in.names;
  MoeSpec s;
  s.hidden = c.hidden;
  s.inner = c.moe.inner;
  s.experts = c.experts;
  s.act = c.act;
  s.route = {.k = static_cast<std::int32_t>(c.moe.used),
             .scoring = c.moe.scoring,
             .normalize = c.moe.normalize,
             .factor = static_cast<float>(c.moe.factor),
             .groups = static_cast<std::int32_t>(c.moe.groups),
             .group_limit = static_cast<std::int32_t>(c.moe.group_limit),
             .group_top = static_cast<std::int32_t>(c.moe.group_top)};
  s.router = names.weight("router", layer);
  s.gate.name = names.weight("expert_gate", layer);
  s.up.name = names.weight("expert_up", layer);
  s.down.name = names.weight("expert_down", layer);
  if (c.moe.shared_inner > 0) {
    s.shared_inner = c.moe.shared_inner;
    s.shared_gate = names.weight("shared_gate", layer);
    s.shared_up = names.weight("shared_up", layer);
    s.shared_down = names.weight("shared_down", layer);
    if (c.moe.shared_router) s.shared_router = names.weight("shared_router", layer);
  }
  return [s, names, layer](FlowCtx& ctx, FlowState& state) {
    MoeSpec spec = s;
    const std::string joined = stored_name(ctx.weights(), names, "expert_gate_up", layer),
                      down = stored_name(ctx.weights(), names, "expert_down_all", layer);
    if (ctx.weights().find(joined)) {
      spec.gate = {joined, 2 * s.inner, 0};
      spec.up = {joined, 2 * s.inner, s.inner};
    }
    if (ctx.weights().find(down)) spec.down.name = down;
    moe_mlp(std::move(spec))(ctx, state);
  };
}

}  // namespace

FlowStage decoder_mlp(const FlowInput& in, std::int64_t layer) {
  if (in.config.moe.is_sparse(layer)) return expert_mlp(in, layer);
  const DecoderConfig& c = in.config;
  const TensorNames& names = in.names;
  MlpSpec s;
  s.hidden = c.hidden;
  s.inner = c.inner;
  s.act = c.act;
  s.gate = names.weight("gate", layer);
  s.up = names.weight("up", layer);
  s.down = names.weight("down", layer);
  if (c.mlp_bias) {
    s.gate_bias = names.bias("gate", layer);
    s.up_bias = names.bias("up", layer);
    s.down_bias = names.bias("down", layer);
  }
  return gated_mlp(std::move(s));
}

FlowStage decoder_head(const FlowInput& in) {
  const DecoderConfig& c = in.config;
  return lm_head({.norm = in.names.weight("final_norm"),
                  .weight = c.tied ? std::string() : in.names.weight("head"),
                  .vocab = c.vocab,
                  .hidden = c.hidden,
                  .eps = static_cast<float>(c.eps),
                  .weight_offset = static_cast<float>(c.norm_offset),
                  .softcap = static_cast<float>(c.final_softcap)});
}

ModelFlow pre_norm_decoder(const FlowInput& in) {
  ModelFlow flow(in.config.architecture);
  decoder_inputs(flow, in);
  flow.stage("rope", decoder_rope(in, in.config.rope, "rope"))
      .stage("embed_tokens", embed_tokens(in))
      .repeat_layers(in.config.layers,
                     [&](ModelFlow& layer, std::int64_t i) {
                       layer.stage("residual_save", residual_save())
                           .stage("attention_norm", decoder_norm(in, "attention_norm", i))
                           .stage("self_attention", decoder_attention(in, i))
                           .stage("residual_add", residual_add())
                           .stage("residual_save", residual_save())
                           .stage("mlp_norm", decoder_norm(in, "mlp_norm", i))
                           .stage("mlp", decoder_mlp(in, i))
                           .stage("residual_add", residual_add());
                     })
      .stage("lm_head", decoder_head(in))
      .output("logits");
  return flow;
}

}  // namespace rlx
