// What state-space decoders share: reading their sizes, the common part of their mixers, and the flow
// x + mixer(norm(x)).
#pragma once

#include <cstdint>
#include <string_view>

#include "flow/blocks/mamba2.h"
#include "models/decoder.h"

namespace rlx {

/// The integer "ARCHITECTURE.ssm.KEY", else `otherwise`.
std::int64_t ssm_integer(const GgufFile& file, const DecoderConfig& config, std::string_view key,
                         std::int64_t otherwise = 0);

/// Inner lanes, states, taps and biases of config.ssm.
void read_ssm_gguf(const GgufFile& file, const WeightSource& weights, DecoderConfig& config);
/// The same and config.eps; the inner lanes are `expand` times the hidden size. Errors as HubConfig.
void read_ssm_hub(const HubConfig& hub, DecoderConfig& config);

/// The fields that the spec of every mixer has: MambaSpec, Mamba2Spec.
template <typename Spec>
Spec ssm_spec(const FlowInput& in, std::int64_t layer) {
  const DecoderConfig& c = in.config;
  const TensorNames& names = in.names;
  Spec s;
  s.layer = layer;
  s.hidden = c.hidden;
  s.states = c.ssm.states;
  s.taps = c.ssm.taps;
  s.act = c.act;
  s.decay = c.format == ConfigFormat::hub ? DecayForm::logarithm : DecayForm::rate;
  s.in_proj = names.weight("in_proj", layer);
  s.conv = names.weight("conv", layer);
  s.a = names.name("a", layer);
  s.d = names.name("d", layer);
  s.out_proj = names.weight("out_proj", layer);
  if (c.ssm.bias) s.in_bias = names.bias("in_proj", layer);
  if (c.ssm.bias) s.out_bias = names.bias("out_proj", layer);
  if (c.ssm.conv_bias) s.conv_bias = names.bias("conv", layer);
  return s;
}

/// The mixer of a layer.
using Mixer = FlowStage (*)(const FlowInput& in, std::int64_t layer);
/// x + mixer(norm(x)) in each layer, no attention, no positions.
ModelFlow mixer_decoder(const FlowInput& in, Mixer mixer);

}  // namespace rlx
