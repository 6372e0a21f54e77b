// Qwen 3 with experts (https://arxiv.org/abs/2505.09388): Qwen 3 whose MLPs are mixtures, but for the
// layers that the config lists and those between the steps of decoder_sparse_step.
#include <algorithm>

#include "base/error.h"
#include "models/decoder.h"
#include "models/experts.h"
#include "models/hub_rope.h"

namespace rlx {
namespace {

void read_qwen3_moe_gguf(const GgufFile& file, const WeightSource& weights, DecoderConfig& c) {
  c.qk_norm = true;
  read_gguf_experts(file, weights, c);
}

std::vector<bool> sparse_layers(const HubConfig& hub, const DecoderConfig& c) {
  const std::int64_t step = hub.integer("decoder_sparse_step").value_or(1);
  if (step < 1)
    fail(ErrorCode::format, "{}: decoder_sparse_step: expected 1 or more, found {}", c.file, step);
  const std::vector<std::int64_t> dense = hub.integers("mlp_only_layers");
  std::vector<bool> sparse;
  for (std::int64_t i = 0; i < c.layers; ++i)
    sparse.push_back(c.experts > 0 && (i + 1) % step == 0 &&
                     std::find(dense.begin(), dense.end(), i) == dense.end());
  return sparse;
}

void read_qwen3_moe_hub(const HubConfig& hub, DecoderConfig& c) {
  c.qk_norm = true;
  c.mlp_bias = false;
  read_upper_window(hub, c);
  // Checkpoints before transformers 5 say num_experts.
  if (!hub.has("num_local_experts")) c.experts = hub.integer("num_experts").value_or(128);
  if (c.experts == 0) return;
  c.moe.used = hub.integer("num_experts_per_tok").value_or(8);
  c.moe.inner = hub.integer("moe_intermediate_size").value_or(768);
  c.moe.normalize = hub.flag("norm_topk_prob").value_or(false);
  c.moe.sparse = sparse_layers(hub, c);
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
                        "rms_norm_eps": 1e-6, "hidden_act": "silu", "sliding_window": 4096, "max_window_layers": 28})",
    .tensors = kPreNormTensors,
    .read_gguf = read_qwen3_moe_gguf,
    .read_hub = read_qwen3_moe_hub,
    .flow = pre_norm_decoder,
};

}  // namespace rlx
