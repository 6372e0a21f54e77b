// Qwen 2 and 2.5 (https://arxiv.org/abs/2412.15115): Llama with biases on q, k and v, and a window
// on the upper layers where the config asks for it.
#include "models/decoder.h"
#include "models/hub_rope.h"

namespace rlx {
namespace {

void biases(DecoderConfig& c) {
  c.qkv_bias = true;
  c.out_bias = c.mlp_bias = false;
}

void read_qwen2_gguf(const GgufFile&, const WeightSource&, DecoderConfig& c) { biases(c); }

void read_qwen2_hub(const HubConfig& hub, DecoderConfig& c) {
  biases(c);
  read_upper_window(hub, c);
}

}  // namespace

constinit const Architecture kQwen2 = {
    .name = "qwen2",
    .gguf = {{"qwen2"}},
    .classes = {{"Qwen2ForCausalLM"}},
    .model_types = {{"qwen2"}},
    .hub_defaults =
        R"({"max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "hidden_act": "silu",
                        "num_key_value_heads": 32, "sliding_window": 4096, "max_window_layers": 28})",
    .tensors = kPreNormTensors,
    .read_gguf = read_qwen2_gguf,
    .read_hub = read_qwen2_hub,
    .flow = pre_norm_decoder,
};

}  // namespace rlx
