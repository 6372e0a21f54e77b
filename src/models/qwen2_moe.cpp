// Qwen 2 and 1.5 with experts (https://arxiv.org/abs/2407.10671): Qwen 2 whose MLPs are mixtures beside shared
// experts, which a sigmoid of their own scales.
#include "models/decoder.h"
#include "models/experts.h"
#include "models/hub_rope.h"

namespace rlx {
namespace {

void read_qwen2_moe_gguf(const GgufFile& file, const WeightSource& weights, DecoderConfig& c) {
  read_gguf_experts(file, weights, c);
  // Files before the key existed: the width of the tensor.
  const WeightRef* shared = weights.find("blk.0.ffn_gate_shexp.weight");
  if (c.moe.shared_inner == 0 && shared && shared->shape.size() == 2)
    c.moe.shared_inner = shared->shape[0];
  c.moe.shared_router = c.moe.shared_inner > 0;
}

void read_qwen2_moe_hub(const HubConfig& hub, DecoderConfig& c) {
  c.qkv_bias = hub.flag("qkv_bias").value_or(true);
  c.out_bias = c.mlp_bias = false;
  read_upper_window(hub, c);
  read_hub_experts(hub, c);
  c.moe.shared_inner = hub.required_integer("shared_expert_intermediate_size");
  c.moe.shared_router = true;
}

}  // namespace

constinit const Architecture kQwen2Moe = {
    .name = "qwen2_moe",
    .gguf = {{"qwen2moe"}},
    .classes = {{"Qwen2MoeForCausalLM"}},
    .model_types = {{"qwen2_moe"}},
    .hub_defaults =
        R"({"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 24,
                        "num_attention_heads": 16, "num_key_value_heads": 16, "max_position_embeddings": 32768,
                        "rms_norm_eps": 1e-6, "hidden_act": "silu", "sliding_window": 4096, "max_window_layers": 28,
                        "num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408,
                        "shared_expert_intermediate_size": 5632})",
    .tensors = kPreNormTensors,
    .read_gguf = read_qwen2_moe_gguf,
    .read_hub = read_qwen2_moe_hub,
    .flow = pre_norm_decoder,
};

}  // namespace rlx
