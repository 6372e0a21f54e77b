// Rotary frequencies as a param that attention blocks share.
#pragma once

#include "flow/flow.h"

namespace rlx {

struct RopeSpec {
  std::string name = "rope";    ///< of the slot and of the param "NAME.inv_freq"
  std::vector<float> inv_freq;  ///< [rotary_dim / 2]
  float magnitude = 1.0f;       ///< factor of cos and sin (YaRN's attention factor)
  RopeStyle style = RopeStyle::half;
};

/// Fills the slot `rope[name]`.
FlowStage rope_frequencies(RopeSpec spec);

}  // namespace rlx
