// The Mamba-2 mixer (https://arxiv.org/abs/2405.21060, section 7).
#pragma once

#include "flow/flow.h"
#include "ops/activation.h"

namespace rlx {

/// Whether a checkpoint stores the decay rates as log(-a) or as a itself.
enum class DecayForm : bool { logarithm, rate };

struct Mamba2Spec {
  std::int64_t layer = 0;  ///< states "ssm.LAYER", "conv_x.LAYER", "conv_b.LAYER", "conv_c.LAYER"
  std::int64_t hidden = 0, heads = 0, head_dim = 0, groups = 1, states = 0, taps = 0;
  Act act = Act::silu;  ///< behind the convolution
  float dt_min = 0.0f, dt_max = 0.0f;
  DecayForm decay = DecayForm::logarithm;
  std::string in_proj, in_bias;  ///< [z, x, b, c, dt: 2 * inner + 2 * groups * states + heads, hidden]
  std::string conv, conv_bias;   ///< [inner + 2 * groups * states, taps]
  std::string a, d, dt_bias;     ///< [heads]
  std::string norm;              ///< [inner] of the RMS norm behind the gate; none when empty
  std::int64_t norm_groups = 1;  ///< each with its own mean
  bool norm_before_gate = false;
  float eps = 1e-5f;
  std::string out_proj, out_bias;  ///< [hidden, inner]
};

/// hidden = out_proj(norm(y * silu(z))), y = scan(conv(x), dt, conv(b), conv(c)). Reads the inputs
/// seq_start, past and slot.
FlowStage mamba2(Mamba2Spec spec);

/// The decay rates of a stored tensor as a param f32[dims], negative; `transpose` exchanges two axes.
Value load_decay(FlowCtx& ctx, const std::string& key, DecayForm form,
                 std::vector<std::int64_t> dims, bool transpose = false);
/// A vector of n values, whatever dims of 1 it is stored with, as f32[n].
Value load_flat(FlowCtx& ctx, const std::string& key, std::int64_t n);

}  // namespace rlx
