// Mistral 7B (https://arxiv.org/abs/2310.06825): Llama with a window on every layer. Converted
// files usually call themselves "llama" and have no window; a file that calls itself "mistral" is
// read as the paper has it.
#include "models/decoder.h"

namespace rlx {
namespace {

void use_window(DecoderConfig& c, std::int64_t window) {
  c.window = window;
  c.windowed.assign(c.windowed.size(), window != 0);
}

void read_mistral_gguf(const GgufFile& file, const WeightSource&, DecoderConfig& c) {
  c.rope_style = RopeStyle::adjacent;
  use_window(c, file.get_int(c.key_prefix + ".attention.sliding_window").value_or(0));
}

void read_mistral_hub(const HubConfig& hub, DecoderConfig& c) {
  use_window(c, hub.integer("sliding_window").value_or(0));
  c.qkv_bias = c.out_bias = c.mlp_bias = false;
}

}  // namespace

constinit const Architecture kMistral = {
    .name = "mistral",
    .gguf = {{"mistral"}},
    .classes = {{"MistralForCausalLM"}},
    .model_types = {{"mistral"}},
    .hub_defaults =
        R"({"max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "hidden_act": "silu",
                        "num_key_value_heads": 8, "sliding_window": 4096})",
    .tensors = kPreNormTensors,
    .read_gguf = read_mistral_gguf,
    .read_hub = read_mistral_hub,
    .flow = pre_norm_decoder,
};

}  // namespace rlx
