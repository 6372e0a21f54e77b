// Mixtral (https://arxiv.org/abs/2401.04088): Mistral whose every MLP is a mixture of gated experts;
// the weights of the chosen ones are a softmax over their logits. Converted GGUF files call themselves
// "llama" (llama.cpp).
#include "models/decoder.h"
#include "models/experts.h"

namespace rlx {
namespace {

constexpr TensorName kMixtralTensors[] = {
    {"embedding", "embed_tokens", "token_embd"},
    {"attention_norm", "layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {"wq", "layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    {"wk", "layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    {"wv", "layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    {"wo", "layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    {"mlp_norm", "layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"},
    {"router", "layers.{}.block_sparse_moe.gate", "blk.{}.ffn_gate_inp"},
    {"expert_gate", "layers.{}.block_sparse_moe.experts.{}.w1", "blk.{}.ffn_gate_exps"},
    {"expert_up", "layers.{}.block_sparse_moe.experts.{}.w3", "blk.{}.ffn_up_exps"},
    {"expert_down", "layers.{}.block_sparse_moe.experts.{}.w2", "blk.{}.ffn_down_exps"},
    {"expert_gate_up", "layers.{}.mlp.experts.gate_up_proj", "blk.{}.ffn_gate_up_exps"},
    {"expert_down_all", "layers.{}.mlp.experts.down_proj", "blk.{}.ffn_down_exps"},
    {"final_norm", "norm", "output_norm"},
    {"head", "/lm_head", "output"},
};

void read_mixtral_gguf(const GgufFile& file, const WeightSource& weights, DecoderConfig& c) {
  c.rope_style = RopeStyle::adjacent;
  c.moe.normalize = true;
  read_gguf_experts(file, weights, c);
}

void read_mixtral_hub(const HubConfig& hub, DecoderConfig& c) {
  c.window = hub.integer("sliding_window").value_or(0);
  c.windowed.assign(c.windowed.size(), c.window != 0);
  c.qkv_bias = c.out_bias = c.mlp_bias = false;
  c.experts = hub.integer("num_local_experts").value_or(8);
  c.moe.used = hub.integer("num_experts_per_tok").value_or(2);
  c.moe.inner = c.inner;
  c.moe.scoring = Scoring::softmax_selected;
  c.moe.sparse.assign(c.windowed.size(), true);
}

}  // namespace

constinit const Architecture kMixtral = {
    .name = "mixtral",
    .gguf = {{"mixtral"}},
    .classes = {{"MixtralForCausalLM"}},
    .model_types = {{"mixtral"}},
    .hub_defaults =
        R"({"max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "hidden_act": "silu",
                        "num_key_value_heads": 8, "intermediate_size": 14336, "rope_theta": 1e6})",
    .tensors = kMixtralTensors,
    .read_gguf = read_mixtral_gguf,
    .read_hub = read_mixtral_hub,
    .flow = pre_norm_decoder,
};

}  // namespace rlx
