// Mamba-2 (https://arxiv.org/abs/2405.21060): x + mixer(norm(x)) in each layer, no attention, no
// positions.
#include "base/error.h"
#include "flow/blocks/mamba2.h"
#include "models/decoder.h"

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
  const auto integer = [&](std::string_view key, std::int64_t otherwise) {
    return file.get_int(fmt::format("{}.ssm.{}", c.key_prefix, key)).value_or(otherwise);
  };
  c.ssm.inner = integer("inner_size", 0);
  c.ssm.states = integer("state_size", 0);
  c.ssm.taps = integer("conv_kernel", 0);
  c.ssm.heads = integer("time_step_rank", 0);
  c.ssm.groups = integer("group_count", 1);
  c.ssm.norm_groups = c.ssm.groups;
  c.ssm.bias = weights.find("blk.0.ssm_in.bias") != nullptr;
  c.ssm.conv_bias = weights.find("blk.0.ssm_conv1d.bias") != nullptr;
  check_heads(c);
}

void read_mamba2_hub(const HubConfig& hub, DecoderConfig& c) {
  const double inner = hub.number("expand").value_or(2.0) * static_cast<double>(c.hidden);
  c.ssm.inner = inner >= 1.0 && inner < 2147483648.0 ? static_cast<std::int64_t>(inner) : 0;
  c.ssm.states = hub.required_integer("state_size");
  c.ssm.taps = hub.required_integer("conv_kernel");
  c.ssm.heads = hub.required_integer("num_heads");
  c.ssm.groups = hub.required_integer("n_groups");
  c.ssm.bias = hub.flag("use_bias").value_or(false);
  c.ssm.conv_bias = hub.flag("use_conv_bias").value_or(true);
  if (const auto limit = hub.numbers("time_step_limit")) {
    if (limit->size() != 2)
      fail(ErrorCode::format, "{}: time_step_limit: expected two numbers, found {}", c.file,
           limit->size());
    c.ssm.dt_min = double{(*limit)[0]};
    c.ssm.dt_max = double{(*limit)[1]};
  }
  c.eps = hub.number("layer_norm_epsilon").value_or(c.eps);
  check_heads(c);
  if (const std::int64_t head_dim = hub.integer("head_dim").value_or(c.ssm.head_dim);
      head_dim != c.ssm.head_dim)
    fail(ErrorCode::format, "{}: head_dim: expected {} ({} inner lanes, {} heads), found {}", c.file,
         c.ssm.head_dim, c.ssm.inner, c.ssm.heads, head_dim);
}

FlowStage mixer(const FlowInput& in, std::int64_t layer) {
  const DecoderConfig& c = in.config;
  const TensorNames& names = in.names;
  Mamba2Spec s;
  s.layer = layer;
  s.hidden = c.hidden;
  s.heads = c.ssm.heads;
  s.head_dim = c.ssm.head_dim;
  s.groups = c.ssm.groups;
  s.states = c.ssm.states;
  s.taps = c.ssm.taps;
  s.act = c.act;
  s.dt_min = static_cast<float>(c.ssm.dt_min);
  s.dt_max = static_cast<float>(c.ssm.dt_max);
  s.decay = c.format == ConfigFormat::hub ? DecayForm::logarithm : DecayForm::rate;
  s.norm_groups = c.ssm.norm_groups;
  s.eps = static_cast<float>(c.eps);
  s.in_proj = names.weight("in_proj", layer);
  s.conv = names.weight("conv", layer);
  s.a = names.name("a", layer);
  s.d = names.name("d", layer);
  s.dt_bias = names.name("dt_bias", layer);
  s.norm = names.weight("gate_norm", layer);
  s.out_proj = names.weight("out_proj", layer);
  if (c.ssm.bias) s.in_bias = names.bias("in_proj", layer);
  if (c.ssm.bias) s.out_bias = names.bias("out_proj", layer);
  if (c.ssm.conv_bias) s.conv_bias = names.bias("conv", layer);
  return mamba2(std::move(s));
}

ModelFlow mamba2_flow(const FlowInput& in) {
  ModelFlow flow(in.config.architecture);
  decoder_inputs(flow, in);
  flow.stage("embed_tokens", embed_tokens(in))
      .repeat_layers(in.config.layers,
                     [&](ModelFlow& layer, std::int64_t i) {
                       layer.stage("residual_save", residual_save())
                           .stage("norm", decoder_norm(in, "norm", i))
                           .stage("mixer", mixer(in, i))
                           .stage("residual_add", residual_add());
                     })
      .stage("lm_head", decoder_head(in))
      .output("logits");
  return flow;
}

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
