#include "models/ssm.h"

#include "base/error.h"

namespace rlx {

std::int64_t ssm_integer(const GgufFile& file, const DecoderConfig& c, std::string_view key, std::int64_t otherwise) {
  return file.get_int(fmt::format("{}.ssm.{}", c.key_prefix, key)).value_or(otherwise);
}

void read_ssm_gguf(const GgufFile& file, const WeightSource& weights, DecoderConfig& c) {
  c.ssm.inner = ssm_integer(file, c, "inner_size");
  c.ssm.states = ssm_integer(file, c, "state_size");
  c.ssm.taps = ssm_integer(file, c, "conv_kernel");
  c.ssm.bias = weights.find("blk.0.ssm_in.bias") != nullptr;
  c.ssm.conv_bias = weights.find("blk.0.ssm_conv1d.bias") != nullptr;
}

void read_ssm_hub(const HubConfig& hub, DecoderConfig& c) {
  const double inner = hub.number("expand").value_or(2.0) * static_cast<double>(c.hidden);
  c.ssm.inner = inner >= 1.0 && inner < 2147483648.0 ? static_cast<std::int64_t>(inner) : 0;
  c.ssm.states = hub.required_integer("state_size");
  c.ssm.taps = hub.required_integer("conv_kernel");
  c.ssm.bias = hub.flag("use_bias").value_or(false);
  c.ssm.conv_bias = hub.flag("use_conv_bias").value_or(true);
  c.eps = hub.number("layer_norm_epsilon").value_or(c.eps);
}

ModelFlow mixer_decoder(const FlowInput& in, Mixer mixer) {
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

}  // namespace rlx
