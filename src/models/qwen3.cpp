// Qwen 3 (https://arxiv.org/abs/2505.09388): Llama with an RMS norm on each head of q and k, and
// heads of their own size.
#include "models/decoder.h"
#include "models/hub_rope.h"

namespace rlx {
namespace {

void read_qwen3_gguf(const GgufFile&, const WeightSource&, DecoderConfig& c) { c.qk_norm = true; }

void read_qwen3_hub(const HubConfig& hub, DecoderConfig& c) {
  c.qk_norm = true;
  c.mlp_bias = false;
  read_upper_window(hub, c);
}

}  // namespace

constinit const Architecture kQwen3 = {
    .name = "qwen3",
    .gguf = {{"qwen3"}},
    .classes = {{"Qwen3ForCausalLM"}},
    .model_types = {{"qwen3"}},
    .hub_defaults =
        R"({"max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "hidden_act": "silu", "head_dim": 128,
                        "num_key_value_heads": 32, "sliding_window": 4096, "max_window_layers": 28})",
    .tensors = kPreNormTensors,
    .read_gguf = read_qwen3_gguf,
    .read_hub = read_qwen3_hub,
    .flow = pre_norm_decoder,
};

}  // namespace rlx
