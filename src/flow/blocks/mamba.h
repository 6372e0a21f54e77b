// The Mamba mixer (https://arxiv.org/abs/2312.00752, section 3.4).
#pragma once

#include "flow/blocks/mamba2.h"

namespace rlx {

struct MambaSpec {
  std::int64_t layer = 0;  ///< states "ssm.LAYER", "conv_x.LAYER"
  std::int64_t hidden = 0, inner = 0, states = 0, taps = 0, rank = 0;
  Act act = Act::silu;  ///< behind the convolution, and of the gate
  DecayForm decay = DecayForm::logarithm;
  std::string in_proj, in_bias;  ///< [x, z: 2 * inner, hidden]
  std::string conv, conv_bias;   ///< [inner, taps]
  std::string x_proj;            ///< [dt, b, c: rank + 2 * states, inner]
  std::string dt_proj, dt_bias;  ///< [inner, rank], [inner]
  std::string a, d;              ///< [inner, states], [inner]
  bool inner_norm = false;       ///< RMS norms without weights of dt, b and c (Falcon Mamba)
  float inner_eps = 1e-6f;
  std::string out_proj, out_bias;  ///< [hidden, inner]
};

/// hidden = out_proj(scan(conv(x)) * act(z)). Reads the inputs seq_start, past and slot.
FlowStage mamba(MambaSpec spec);

}  // namespace rlx
