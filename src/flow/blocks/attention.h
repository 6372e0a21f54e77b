// Self-attention of a decoder layer: over a paged cache, or over past keys and values that come in.
#pragma once

#include "flow/flow.h"

namespace rlx {

/// Sizes and weights of one layer's attention. A bias or per-head norm is there when its key is not
/// empty.
struct AttentionSpec {
  std::int64_t layer = 0;  ///< the cache is the state "kv.LAYER"
  std::int64_t hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 1.0f;         ///< of the scores
  float softcap = 0.0f;       ///< 0: none
  std::int64_t window = 0;    ///< a row at position p sees p - window + 1 .. p; 0: all
  std::string rope = "rope";  ///< slot of the frequencies
  bool use_rope =
      true;  ///< false: a layer without position encoding (the slot still gives the operand)
  float eps = 1e-6f;  ///< of the per-head norms
  float weight_offset = 0.0f;
  std::string wq, wk, wv, wo;  ///< [heads * head_dim, hidden], [kv_heads * head_dim, hidden] twice,
                               ///< [hidden, heads * head_dim]
  std::string bq, bk, bv, bo;
  std::string q_norm, k_norm;  ///< [head_dim]
};

/// hidden = attention(hidden). Reads the inputs positions, seq_start, past, slot, the slot `rope`;
/// declares the states "pages" (once) and "kv.LAYER". Where the slot `decode` is filled (decode_bindings), it
/// reads that and `rope` only, and adds the results present_k.LAYER and present_v.LAYER f32[batch, kv_heads,
/// past_seq + seq, head_dim]. Errors (invalid_argument): bindings without this layer.
FlowStage self_attention(AttentionSpec spec);

}  // namespace rlx
