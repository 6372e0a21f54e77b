// Attention over the rows of a step, without a cache: encoders, cross-attention, decoders in functional form.
#pragma once

#include "flow/flow.h"

namespace rlx {

/// Sizes and weights of one layer's attention. A bias is there when its key is not empty.
struct EncoderAttentionSpec {
  std::int64_t hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 1.0f;       ///< of the scores
  float softcap = 0.0f;     ///< 0: none
  std::int64_t window = 0;  ///< DenseAttention::window; 0: all
  bool causal = false;
  std::string starts = "seq_start";  ///< input: where sequences begin
  std::string source;                ///< stream of the rows of keys and values; empty: the hidden state
  std::string source_starts;         ///< its input of starts, when there is a source
  std::string position_bias;         ///< node of a bias by distance (relative_bias.h); empty: none
  std::string wq, wk, wv, wo;        ///< [heads * head_dim, hidden], [kv_heads * head_dim, hidden] twice,
                                     ///< [hidden, heads * head_dim]
  std::string bq, bk, bv, bo;
};

/// hidden = attention(hidden).
FlowStage encoder_attention(EncoderAttentionSpec spec);

}  // namespace rlx
