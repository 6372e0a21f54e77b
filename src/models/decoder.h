// The parts that flows of decoders share: inputs, RoPE tables, and blocks filled in from the
// config.
#pragma once

#include "flow/blocks/attention.h"
#include "flow/blocks/decode_bindings.h"
#include "flow/blocks/embedding.h"
#include "flow/blocks/lm_head.h"
#include "flow/blocks/mlp.h"
#include "flow/blocks/moe.h"
#include "flow/blocks/norm.h"
#include "flow/blocks/residual.h"
#include "flow/blocks/rope.h"
#include "models/architecture.h"

namespace rlx {

/// The inputs of the form that is built (built_model.h); in functional form the stage decode_bindings as well.
void decoder_inputs(ModelFlow& flow, const FlowInput& in);

/// The table of `rope`, with the divisors of the file's `rope_freqs.weight` where it has them.
FlowStage decoder_rope(const FlowInput& in, const RopeConfig& rope, std::string slot);

FlowStage embed_tokens(const FlowInput& in);
FlowStage decoder_norm(const FlowInput& in, std::string_view role, std::int64_t layer = 0);
/// Attention of a layer; `rope` is the slot of its frequencies.
FlowStage decoder_attention(const FlowInput& in, std::int64_t layer,
                            std::string_view rope = "rope");
/// The experts of a layer that has them (config.moe), else its MLP. The experts' tensors have the roles
/// router, expert_gate, expert_up and expert_down, or expert_gate_up where a file joins the first two.
/// Shared experts have the roles shared_gate, shared_up, shared_down and shared_router.
FlowStage decoder_mlp(const FlowInput& in, std::int64_t layer);
FlowStage decoder_head(const FlowInput& in);

/// The decoder of Llama and its kin: x + attention(norm(x)), then x + mlp(norm(x)).
ModelFlow pre_norm_decoder(const FlowInput& in);

/// Tensors of that decoder in both formats; `q_norm` and `k_norm` only where the family has them. A
/// leading slash: beside the decoder.
inline constexpr TensorName kPreNormTensors[] = {
    {"embedding", "embed_tokens", "token_embd"},
    {"attention_norm", "layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {"wq", "layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    {"wk", "layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    {"wv", "layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    {"wo", "layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    {"q_norm", "layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm"},
    {"k_norm", "layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm"},
    {"mlp_norm", "layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"},
    {"gate", "layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"},
    {"up", "layers.{}.mlp.up_proj", "blk.{}.ffn_up"},
    {"down", "layers.{}.mlp.down_proj", "blk.{}.ffn_down"},
    {"router", "layers.{}.mlp.gate", "blk.{}.ffn_gate_inp"},
    {"expert_gate", "layers.{}.mlp.experts.{}.gate_proj", "blk.{}.ffn_gate_exps"},
    {"expert_up", "layers.{}.mlp.experts.{}.up_proj", "blk.{}.ffn_up_exps"},
    {"expert_down", "layers.{}.mlp.experts.{}.down_proj", "blk.{}.ffn_down_exps"},
    {"expert_gate_up", "layers.{}.mlp.experts.gate_up_proj", "blk.{}.ffn_gate_up_exps"},
    {"expert_down_all", "layers.{}.mlp.experts.down_proj", "blk.{}.ffn_down_exps"},
    {"shared_gate", "layers.{}.mlp.shared_expert.gate_proj", "blk.{}.ffn_gate_shexp"},
    {"shared_up", "layers.{}.mlp.shared_expert.up_proj", "blk.{}.ffn_up_shexp"},
    {"shared_down", "layers.{}.mlp.shared_expert.down_proj", "blk.{}.ffn_down_shexp"},
    {"shared_router", "layers.{}.mlp.shared_expert_gate", "blk.{}.ffn_gate_inp_shexp"},
    {"final_norm", "norm", "output_norm"},
    {"head", "/lm_head", "output"},
};

}  // namespace rlx
