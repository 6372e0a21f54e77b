// The functional form of a decoder: past keys and values in, present ones out.
#pragma once

#include "flow/flow.h"

namespace rlx {

struct DecodeBindingsSpec {
  std::int64_t layers = 0, kv_heads = 0, head_dim = 0;
  bool mask = false;  ///< an input "mask" f32[seq, past_seq + seq], added to the scores of all heads and sequences
                      ///< beside the causal rule: 0, or -1e30 for a key that a token must not see
};

/// Declares the inputs past_k.L and past_v.L f32[batch, kv_heads, past_seq, head_dim] of each layer L (and mask), and
/// fills the slot `decode`: attention that follows reads them and gives the results present_k.L and present_v.L. Reads
/// the input positions i32[batch * seq].
FlowStage decode_bindings(const DecodeBindingsSpec& spec);

}  // namespace rlx
