// Qwen 3 with experts (https://arxiv.org/abs/2505.09388): Qwen 3 whose MLPs are mixtures, but for the
// layers that the config lists and those between the steps of decoder_sparse_step.
#include "models/decoder.h"
#include "models/experts.h"
#include "models/hub_rope.h"

namespace rlx {
namespace {

void read_qwen3_moe_gguf(const GgufFile& file, const WeightSource& weights, DecoderConfig& c) {
  c.qk_norm = true;
  c.moe.normalize = true;
  read_gguf_experts(file, weights, c);
}

void read_qwen3_moe_hub(const HubConfig& hub, DecoderConfig& c) {
  c.qk_norm = true;
  c.mlp_bias = false;
  read_upper_window(hub, c);
  read_hub_experts(hub, c);
}

}  // namespace

constinit const Architecture kQwen3Moe = {
    .name = "qwen3_moe",
    .gguf = {{"qwen3moe"}},
    .classes = {{"Qwen3MoeForCausalLM"}},
    .model_types = {{"qwen3_moe"}},
    .hub_defaults =
        R"({"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 24,
                        "num_attention_heads": 32, "num_key_value_heads": 4, "max_position_embeddings": 32768,
                        "rms_norm_eps": 1e-6, "hidden_act": "silu", "sliding_window": 4096, "max_window_layers": 28,
                        "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768})",
    .tensors = kPreNormTensors,
    .read_gguf = read_qwen3_moe_gguf,
    .read_hub = read_qwen3_moe_hub,
    .flow = pre_norm_decoder,
};

}  // namespace rlx
