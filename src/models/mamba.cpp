// Mamba (https://arxiv.org/abs/2312.00752) and Falcon Mamba (https://arxiv.org/abs/2410.05355), which
// norms the step size, b and c: x + mixer(norm(x)) in each layer, no attention, no positions.
#include "flow/blocks/mamba.h"

#include "base/error.h"
#include "models/decoder.h"

namespace rlx {
namespace {

constexpr TensorName kMambaTensors[] = {
    {"embedding", "embeddings", "token_embd"},
    {"norm", "layers.{}.norm", "blk.{}.attn_norm"},
    {"in_proj", "layers.{}.mixer.in_proj", "blk.{}.ssm_in"},
    {"conv", "layers.{}.mixer.conv1d", "blk.{}.ssm_conv1d"},
    {"x_proj", "layers.{}.mixer.x_proj", "blk.{}.ssm_x"},
    {"dt_proj", "layers.{}.mixer.dt_proj", "blk.{}.ssm_dt"},
    {"a", "layers.{}.mixer.A_log", "blk.{}.ssm_a"},
    {"d", "layers.{}.mixer.D", "blk.{}.ssm_d"},
    {"out_proj", "layers.{}.mixer.out_proj", "blk.{}.ssm_out"},
    {"final_norm", "norm_f", "output_norm"},
    {"head", "/lm_head", "output"},
};

void check_rank(const DecoderConfig& c) {
  if (c.ssm.rank < 1)
    fail(ErrorCode::format, "{}: expected a number of 1 or more, found {}",
         key_text(c, "ssm.time_step_rank", "time_step_rank"), c.ssm.rank);
}

void read_mamba_gguf(const GgufFile& file, const WeightSource& weights, DecoderConfig& c) {
  const auto integer = [&](std::string_view key, std::int64_t otherwise) {
    return file.get_int(fmt::format("{}.ssm.{}", c.key_prefix, key)).value_or(otherwise);
  };
  c.ssm.inner = integer("inner_size", 0);
  c.ssm.states = integer("state_size", 0);
  c.ssm.taps = integer("conv_kernel", 0);
  c.ssm.rank = integer("time_step_rank", 0);
  c.ssm.bias = weights.find("blk.0.ssm_in.bias") != nullptr;
  c.ssm.conv_bias = weights.find("blk.0.ssm_conv1d.bias") != nullptr;
  c.ssm.inner_norm =
      file.get_bool(c.key_prefix + ".ssm.dt_b_c_rms").value_or(false);
  c.ssm.inner_eps = c.eps;
  check_rank(c);
}

/// "auto" is a sixteenth of the hidden size, rounded up.
std::int64_t rank_of(const HubConfig& hub, std::int64_t hidden) {
  const std::int64_t automatic = (hidden + 15) / 16;
  if (!hub.has("time_step_rank") || hub.json()["time_step_rank"] == "auto") return automatic;
  return hub.required_integer("time_step_rank");
}

void read_mamba_hub(const HubConfig& hub, DecoderConfig& c) {
  const double inner = hub.number("expand").value_or(2.0) * static_cast<double>(c.hidden);
  const bool fits = inner >= 1.0 && inner < 2147483648.0;
  c.ssm.inner = hub.integer("intermediate_size").value_or(fits ? static_cast<std::int64_t>(inner) : 0);
  c.ssm.states = hub.required_integer("state_size");
  c.ssm.taps = hub.required_integer("conv_kernel");
  c.ssm.rank = rank_of(hub, c.hidden);
  c.ssm.bias = hub.flag("use_bias").value_or(false);
  c.ssm.conv_bias = hub.flag("use_conv_bias").value_or(true);
  c.ssm.inner_norm = hub.text("model_type") == "falcon_mamba";
  c.ssm.inner_eps = hub.number("mixer_rms_eps").value_or(1e-6);
  c.eps = hub.number("layer_norm_epsilon").value_or(c.eps);
  check_rank(c);
}

FlowStage mixer_of_mamba(const FlowInput& in, std::int64_t layer) {
  const DecoderConfig& c = in.config;
  const TensorNames& names = in.names;
  MambaSpec s;
  s.layer = layer;
  s.hidden = c.hidden;
  s.inner = c.ssm.inner;
  s.states = c.ssm.states;
  s.taps = c.ssm.taps;
  s.rank = c.ssm.rank;
  s.act = c.act;
  s.decay = c.format == ConfigFormat::hub ? DecayForm::logarithm : DecayForm::rate;
  s.inner_norm = c.ssm.inner_norm;
  s.inner_eps = static_cast<float>(c.ssm.inner_eps);
  s.in_proj = names.weight("in_proj", layer);
  s.conv = names.weight("conv", layer);
  s.x_proj = names.weight("x_proj", layer);
  s.dt_proj = names.weight("dt_proj", layer);
  s.dt_bias = names.bias("dt_proj", layer);
  s.a = names.name("a", layer);
  s.d = names.name("d", layer);
  s.out_proj = names.weight("out_proj", layer);
  if (c.ssm.bias) s.in_bias = names.bias("in_proj", layer);
  if (c.ssm.bias) s.out_bias = names.bias("out_proj", layer);
  if (c.ssm.conv_bias) s.conv_bias = names.bias("conv", layer);
  return mamba(std::move(s));
}

ModelFlow mamba_flow(const FlowInput& in) {
  ModelFlow flow(in.config.architecture);
  decoder_inputs(flow, in);
  flow.stage("embed_tokens", embed_tokens(in))
      .repeat_layers(in.config.layers,
                     [&](ModelFlow& layer, std::int64_t i) {
                       layer.stage("residual_save", residual_save())
                           .stage("norm", decoder_norm(in, "norm", i))
                           .stage("mixer", mixer_of_mamba(in, i))
                           .stage("residual_add", residual_add());
                     })
      .stage("lm_head", decoder_head(in))
      .output("logits");
  return flow;
}

}  // namespace

constinit const Architecture kMamba = {
    .name = "mamba",
    .gguf = {{"mamba"}},
    .classes = {{"MambaForCausalLM", "FalconMambaForCausalLM"}},
    .model_types = {{"mamba", "falcon_mamba"}},
    .hub_defaults =
        R"({"max_position_embeddings": 1048576, "vocab_size": 50280, "hidden_size": 768, "num_hidden_layers": 32,
            "state_size": 16, "expand": 2, "conv_kernel": 4, "layer_norm_epsilon": 1e-5, "hidden_act": "silu",
            "tie_word_embeddings": true})",
    .tensors = kMambaTensors,
    .attention_free = true,
    .read_gguf = read_mamba_gguf,
    .read_hub = read_mamba_hub,
    .flow = mamba_flow,
};

}  // namespace rlx
