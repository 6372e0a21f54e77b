// Short depthwise convolutions over the rows of a sequence: alone as a token mixer, and as the part
// of other recurrent blocks.
#pragma once

#include "flow/blocks/projection.h"

namespace rlx {

/// Channels first .. first + count - 1 of a stored depthwise convolution [channels, taps], which may
/// have a dim of 1 between.
struct CausalConvSpec {
  std::string state;         ///< name of the state that it keeps
  std::string weight, bias;  ///< keys; no bias when empty
  std::int64_t channels = 0, taps = 0;
  FlowCtx::RowRange part;
  Act act = Act::none;
};

/// act(conv(x)) for x: [rows, count]. Reads the inputs seq_start, past and slot.
Value causal_conv(FlowCtx& ctx, const FlowState& state, Value x, const CausalConvSpec& spec);

/// The state `name`, f32, followed by seq_start, past and slot: the last operands of a recurrent op.
std::vector<Value> recurrent_operands(FlowCtx& ctx, const FlowState& state, std::string_view name,
                                      std::initializer_list<std::int64_t> dims);

/// The mixer of LFM2 (https://arxiv.org/abs/2511.23404): b, c, x = in_proj(hidden); hidden = out_proj(c * conv(b * x)).
struct ShortConvSpec {
  std::int64_t layer = 0;  ///< the state is "conv.LAYER"
  std::int64_t hidden = 0, taps = 0;
  std::string in_proj, in_bias;  ///< [3 * hidden, hidden]
  std::string conv, conv_bias;   ///< [hidden, taps]
  std::string out_proj, out_bias;
};
FlowStage short_conv(ShortConvSpec spec);

}  // namespace rlx
