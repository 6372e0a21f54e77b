// Gemma 3 (https://arxiv.org/abs/2503.19786), the text model: a norm before and after each block,
// per-head norms of q and k, GeGLU, embeddings times sqrt(hidden), five layers with a window and
// their own RoPE base to one with full attention.
#include <cmath>

#include "base/error.h"
#include "models/decoder.h"
#include "models/hub_rope.h"

namespace rlx {
namespace {

constexpr TensorName kGemma3Tensors[] = {
    {"embedding", "embed_tokens", "token_embd"},
    {"attention_norm", "layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {"wq", "layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    {"wk", "layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    {"wv", "layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    {"wo", "layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    {"q_norm", "layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm"},
    {"k_norm", "layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm"},
    {"attention_post_norm", "layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm"},
    {"mlp_norm", "layers.{}.pre_feedforward_layernorm", "blk.{}.ffn_norm"},
    {"gate", "layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"},
    {"up", "layers.{}.mlp.up_proj", "blk.{}.ffn_up"},
    {"down", "layers.{}.mlp.down_proj", "blk.{}.ffn_down"},
    {"mlp_post_norm", "layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm"},
    {"final_norm", "norm", "output_norm"},
    {"head", "/lm_head", "output"},
};

constexpr std::int64_t kPattern = 6;       // every sixth layer sees everything
constexpr double kLocalBase = 10000.0;     // RoPE base of the layers with a window
constexpr std::int64_t kLayersOf27B = 62;  // whose query scale is hidden / heads, not the head size

bool has_window(std::int64_t layer, std::int64_t pattern) {
  return pattern < 1 || (layer + 1) % pattern != 0;
}

void common(DecoderConfig& c) {
  c.qk_norm = true;
  c.mlp_bias = false;
  c.embedding_scale = static_cast<double>(std::sqrt(static_cast<float>(c.hidden)));
}

/// Files name neither the pattern nor the local base unless they differ; norms are stored with the
/// 1 added.
void read_gemma3_gguf(const GgufFile& file, const WeightSource&, DecoderConfig& c) {
  common(c);
  c.activation = "gelu_pytorch_tanh";
  const std::string pattern = c.key_prefix + ".attention.sliding_window_pattern";
  c.window = file.get_int(c.key_prefix + ".attention.sliding_window").value_or(0);
  bool is_list = false;
  for (const GgufFile::Entry& e : file.metadata())
    is_list = is_list || (e.key == pattern && e.type == GgufType::array);
  if (is_list) {
    const std::vector<std::int64_t> list =
        file.get_ints(pattern).value_or(std::vector<std::int64_t>{});
    c.windowed.assign(list.begin(), list.end());
  } else {
    const std::int64_t every = file.get_int(pattern).value_or(kPattern);
    for (std::int64_t i = 0; i < c.layers; ++i)
      c.windowed[static_cast<std::size_t>(i)] = has_window(i, every);
  }
  if (!file.has(c.key_prefix + ".rope.freq_base")) c.rope.base = 1000000.0;
  c.local_rope.base = file.get_float(c.key_prefix + ".rope.freq_base_swa").value_or(kLocalBase);
  if (c.attention_scale == 0.0 && c.layers == kLayersOf27B)
    c.attention_scale =
        1.0 / std::sqrt(static_cast<double>(c.hidden) / static_cast<double>(c.heads));
}

bool window_by_pattern(const HubConfig& hub, std::int64_t layer) {
  const std::int64_t old = hub.integer("sliding_window_pattern").value_or(kPattern);
  return has_window(layer, hub.integer("_sliding_window_pattern").value_or(old));
}

/// Parameters by type of layer, or the older keys: rope_scaling is for the full layers,
/// rope_local_base_freq for the others. The config's attn_logit_softcapping is not applied: the
/// reference implementation of this family does not read it.
void read_gemma3_hub(const HubConfig& hub, DecoderConfig& c) {
  common(c);
  c.norm_offset = 1.0;
  c.activation = hub.text("hidden_activation").value_or("gelu_pytorch_tanh");
  if (hub.flag("use_bidirectional_attention").value_or(false))
    fail(ErrorCode::unsupported,
         "{}: use_bidirectional_attention: expected false (a causal decoder), found true", c.file);
  c.window = hub.integer("sliding_window").value_or(0);
  c.windowed = read_layer_types(hub, c.layers, window_by_pattern);
  const std::optional<HubConfig> nested = hub.object("rope_parameters");
  if (nested && nested->has("sliding_attention")) {
    c.local_rope = read_hub_rope(hub, "sliding_attention", c.context);
  } else {
    c.local_rope.base = hub.number("rope_local_base_freq").value_or(kLocalBase);
  }
  const double scalar =
      hub.number("query_pre_attn_scalar").value_or(static_cast<double>(c.head_dim));
  c.attention_scale = scalar > 0.0 ? 1.0 / std::sqrt(scalar) : -1.0;
  c.final_softcap = hub.number("final_logit_softcapping").value_or(0.0);
}

ModelFlow flow_of(const FlowInput& in) {
  const DecoderConfig& c = in.config;
  ModelFlow flow(c.architecture);
  decoder_inputs(flow, in);
  flow.stage("rope", decoder_rope(in, c.rope, "rope"))
      .stage("rope_local", decoder_rope(in, c.local_rope, "rope_local"))
      .stage("embed_tokens", embed_tokens(in))
      .repeat_layers(c.layers,
                     [&](ModelFlow& layer, std::int64_t i) {
                       const bool local = c.windowed[static_cast<std::size_t>(i)];
                       layer.stage("residual_save", residual_save())
                           .stage("attention_norm", decoder_norm(in, "attention_norm", i))
                           .stage("self_attention",
                                  decoder_attention(in, i, local ? "rope_local" : "rope"))
                           .stage("attention_post_norm", decoder_norm(in, "attention_post_norm", i))
                           .stage("residual_add", residual_add())
                           .stage("residual_save", residual_save())
                           .stage("mlp_norm", decoder_norm(in, "mlp_norm", i))
                           .stage("mlp", decoder_mlp(in, i))
                           .stage("mlp_post_norm", decoder_norm(in, "mlp_post_norm", i))
                           .stage("residual_add", residual_add());
                     })
      .stage("lm_head", decoder_head(in))
      .output("logits");
  return flow;
}

}  // namespace

constinit const Architecture kGemma3 = {
    .name = "gemma3",
    .gguf = {{"gemma3"}},
    .classes = {{"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"}},
    .model_types = {{"gemma3_text", "gemma3"}},
    .hub_defaults =
        R"({"vocab_size": 262208, "max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "head_dim": 256,
                        "num_attention_heads": 8, "num_key_value_heads": 4, "sliding_window": 4096, "rope_theta": 1e6,
                        "query_pre_attn_scalar": 256, "tie_word_embeddings": true})",
    .tensors = kGemma3Tensors,
    .read_gguf = read_gemma3_gguf,
    .read_hub = read_gemma3_hub,
    .flow = flow_of,
};

}  // namespace rlx
