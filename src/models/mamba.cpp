// Mamba (https://arxiv.org/abs/2312.00752) and Falcon Mamba (https://arxiv.org/abs/2410.05355), which
// norms the step size, b and c: x + mixer(norm(x)) in each layer, no attention, no positions.
#include "flow/blocks/mamba.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/ssm.h"

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
  read_ssm_gguf(file, weights, c);
  c.ssm.rank = ssm_integer(file, c, "time_step_rank");
  c.ssm.inner_norm = file.get_bool(c.key_prefix + ".ssm.dt_b_c_rms").value_or(false);
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
  read_ssm_hub(hub, c);
  c.ssm.inner = hub.integer("intermediate_size").value_or(c.ssm.inner);
  c.ssm.rank = rank_of(hub, c.hidden);
  c.ssm.inner_norm = hub.text("model_type") == "falcon_mamba";
  c.ssm.inner_eps = hub.number("mixer_rms_eps").value_or(1e-6);
  check_rank(c);
}

FlowStage mamba_mixer(const FlowInput& in, std::int64_t layer) {
  auto s = ssm_spec<MambaSpec>(in, layer);
  s.inner = in.config.ssm.inner;
  s.rank = in.config.ssm.rank;
  s.inner_norm = in.config.ssm.inner_norm;
  s.inner_eps = static_cast<float>(in.config.ssm.inner_eps);
  s.x_proj = in.names.weight("x_proj", layer);
  s.dt_proj = in.names.weight("dt_proj", layer);
  s.dt_bias = in.names.bias("dt_proj", layer);
  return mamba(std::move(s));
}

ModelFlow mamba_flow(const FlowInput& in) { return mixer_decoder(in, mamba_mixer); }

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
