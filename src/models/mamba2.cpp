// Mamba-2 (https://arxiv.org/abs/2405.21060): x + mixer(norm(x)) in each layer, no attention, no
// positions.
#include "base/error.h"
#include "flow/blocks/mamba2.h"
#include "models/ssm.h"

namespace rlx {
namespace {

constexpr TensorName kMamba2Tensors[] = {
    {"embedding", "embeddings", "token_embd"},
    {"norm", "layers.{}.norm", "blk.{}.attn_norm"},
    {"in_proj", "layers.{}.mixer.in_proj", "blk.{}.ssm_in"},
    {"conv", "layers.{}.mixer.conv1d", "blk.{}.ssm_conv1d"},
    {"dt_bias", "layers.{}.mixer.dt_bias", "blk.{}.ssm_dt.bias"},
    {"a", "layers.{}.mixer.A_log", "blk.{}.ssm_a"},
    {"d", "layers.{}.mixer.D", "blk.{}.ssm_d"},
    {"gate_norm", "layers.{}.mixer.norm", "blk.{}.ssm_norm"},
    {"out_proj", "layers.{}.mixer.out_proj", "blk.{}.ssm_out"},
    {"final_norm", "norm_f", "output_norm"},
    {"head", "/lm_head", "output"},
};

/// Heads and groups must divide what they cut; the table of config.cpp bounds each number.
void check_heads(DecoderConfig& c) {
  SsmConfig& s = c.ssm;
  if (s.heads < 1 || s.inner < 1 || s.inner % s.heads != 0)
    fail(ErrorCode::format, "{}: expected a divisor of the {} inner lanes, found {}",
         key_text(c, "ssm.time_step_rank", "num_heads"), s.inner, s.heads);
  if (s.groups < 1 || s.heads % s.groups != 0)
    fail(ErrorCode::format, "{}: expected a divisor of the {} heads, found {}",
         key_text(c, "ssm.group_count", "n_groups"), s.heads, s.groups);
  s.head_dim = s.inner / s.heads;
}

/// In these files the norm behind the gate has groups (of one, in the models of the paper).
void read_mamba2_gguf(const GgufFile& file, const WeightSource& weights, DecoderConfig& c) {
  read_ssm_gguf(file, weights, c);
  c.ssm.heads = ssm_integer(file, c, "time_step_rank");
  c.ssm.groups = ssm_integer(file, c, "group_count", 1);
  c.ssm.norm_groups = c.ssm.groups;
  check_heads(c);
}

void read_mamba2_hub(const HubConfig& hub, DecoderConfig& c) {
  read_ssm_hub(hub, c);
  c.ssm.heads = hub.required_integer("num_heads");
  c.ssm.groups = hub.required_integer("n_groups");
  if (const auto limit = hub.numbers("time_step_limit")) {
    if (limit->size() != 2)
      fail(ErrorCode::format, "{}: time_step_limit: expected two numbers, found {}", c.file,
           limit->size());
    c.ssm.dt_min = double{(*limit)[0]};
    c.ssm.dt_max = double{(*limit)[1]};
  }
  check_heads(c);
  if (const std::int64_t head_dim = hub.integer("head_dim").value_or(c.ssm.head_dim);
      head_dim != c.ssm.head_dim)
    fail(ErrorCode::format, "{}: head_dim: expected {} ({} inner lanes, {} heads), found {}", c.file,
         c.ssm.head_dim, c.ssm.inner, c.ssm.heads, head_dim);
}

FlowStage mamba2_mixer(const FlowInput& in, std::int64_t layer) {
  const SsmConfig& ssm = in.config.ssm;
  auto s = ssm_spec<Mamba2Spec>(in, layer);
  s.heads = ssm.heads;
  s.head_dim = ssm.head_dim;
  s.groups = ssm.groups;
  s.dt_min = static_cast<float>(ssm.dt_min);
  s.dt_max = static_cast<float>(ssm.dt_max);
  s.norm_groups = ssm.norm_groups;
  s.eps = static_cast<float>(in.config.eps);
  s.dt_bias = in.names.name("dt_bias", layer);
  s.norm = in.names.weight("gate_norm", layer);
  return mamba2(std::move(s));
}

ModelFlow mamba2_flow(const FlowInput& in) { return mixer_decoder(in, mamba2_mixer); }

}  // namespace

constinit const Architecture kMamba2 = {
    .name = "mamba2",
    .gguf = {{"mamba2"}},
    .classes = {{"Mamba2ForCausalLM"}},
    .model_types = {{"mamba2"}},
    .hub_defaults =
        R"({"max_position_embeddings": 1048576, "vocab_size": 32768, "hidden_size": 4096, "num_hidden_layers": 64,
            "num_heads": 128, "state_size": 128, "expand": 2, "conv_kernel": 4, "n_groups": 8,
            "layer_norm_epsilon": 1e-5, "hidden_act": "silu"})",
    .tensors = kMamba2Tensors,
    .attention_free = true,
    .read_gguf = read_mamba2_gguf,
    .read_hub = read_mamba2_hub,
    .flow = mamba2_flow,
};

}  // namespace rlx
