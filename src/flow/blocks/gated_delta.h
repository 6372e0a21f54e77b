// The gated delta net (https://arxiv.org/abs/2412.06464), as Qwen3-Next and Qwen3.5 have it.
#pragma once

#include "flow/flow.h"

namespace rlx {

/// Sizes and weights of one layer. The projections are stored apart, or (in_qkv empty) in two
/// matrices whose rows are dealt by key heads: each has its q, k, v and z, and its b and a.
struct GatedDeltaSpec {
  std::int64_t layer = 0;  ///< states "delta.LAYER", "conv_q.LAYER", "conv_k.LAYER", "conv_v.LAYER"
  std::int64_t hidden = 0, heads = 0, key_heads = 0, key_dim = 0, value_dim = 0, taps = 0;
  float eps = 1e-6f;            ///< of the norm behind the scan
  std::string in_qkv;           ///< [2 * key_heads * key_dim + heads * value_dim, hidden]
  std::string in_z, in_b, in_a; ///< [heads * value_dim, hidden], [heads, hidden] twice
  std::string in_qkvz, in_ba;   ///< [2 * key_heads * key_dim + 2 * heads * value_dim, hidden], [2 * heads, hidden]
  std::string conv;             ///< [2 * key_heads * key_dim + heads * value_dim, taps], no bias
  std::string a_log, dt_bias;   ///< [heads]
  std::string norm;             ///< [value_dim], of each head
  std::string out_proj;         ///< [hidden, heads * value_dim]
};

/// Fills the slots q, k, v (behind the convolution), z, g = -exp(a_log) * softplus(a + dt_bias) and
/// beta = sigmoid(b) of FlowState::delta from the hidden state.
FlowStage gated_delta_inputs(GatedDeltaSpec spec);
/// hidden = out_proj(norm(delta(q, k, v, g, beta)) * silu(z)) from those slots; q and k are divided
/// by their length, q by sqrt(key_dim) too. Reads the inputs seq_start, past and slot.
FlowStage gated_delta_mix(GatedDeltaSpec spec);
/// Both.
FlowStage gated_delta_net(GatedDeltaSpec spec);

}  // namespace rlx
