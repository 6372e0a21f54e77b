// Llama 1 to 3 (https://arxiv.org/abs/2302.13971, https://arxiv.org/abs/2407.21783) and what keeps
// its form (SmolLM2, ...): pre-norm decoder, grouped heads, SwiGLU; biases and every RoPE scaling
// by config.
#include "models/decoder.h"
#include "models/experts.h"

namespace rlx {
namespace {

// GGUF files of this family store the rows of wq and wk in the order of adjacent pairs.
// Converted Mixtral files carry the family's name too.
void read_llama_gguf(const GgufFile& file, const WeightSource& weights, DecoderConfig& c) {
  c.rope_style = RopeStyle::adjacent;
  c.moe.normalize = true;
  read_gguf_experts(file, weights, c);
}

void read_llama_hub(const HubConfig&, DecoderConfig&) {}

}  // namespace

constinit const Architecture kLlama = {
    .name = "llama",
    .gguf = {{"llama"}},
    .classes = {{"LlamaForCausalLM"}},
    .model_types = {{"llama"}},
    .hub_defaults =
        R"({"max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "hidden_act": "silu"})",
    .tensors = kPreNormTensors,
    .read_gguf = read_llama_gguf,
    .read_hub = read_llama_hub,
    .flow = pre_norm_decoder,
};

}  // namespace rlx
