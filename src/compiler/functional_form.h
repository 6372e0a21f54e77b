// A decoder without states: the form that is differentiated. Cached attention becomes causal attention over the rows
// of the step itself, made of ordinary ops.
#pragma once

#include "ir/graph.h"
#include "ops/attention.h"

namespace rlx {

/// Rows that see each other: boolean [rows, rows], true where row i may look at row j. Row r belongs to the sequence
/// that begins at row r - positions[r]; within it row i sees j <= i, and with `window` > 0 the last `window` of them.
Value causal_mask(Builder& b, Value positions, std::int32_t window = 0);

/// Rows of queries, keys and values, all heads side by side.
struct AttentionRows {
  Value q, k, v;
};
/// softmax(scale q k^T, masked) v with grouped heads, the score capped as Attention says.
/// q: f32[rows, heads * head_dim]; k, v: f32[rows, kv_heads * head_dim]; mask: causal_mask(); the result as q.
Value causal_attention(Builder& b, const Attention& op, std::int32_t head_dim, const AttentionRows& rows, Value mask);

/// The graph of a decoder (flow/built_model.h) with its blocks expanded and causal_attention in place of the cache:
/// one step with empty caches gives the same outputs. States and the inputs that only they need are gone; what is left
/// is "tokens", "positions" (counting from 0 in each sequence) and "out_rows".
/// Errors: unsupported (a state op other than attention, its append and RoPE); invalid_argument (cached attention in a
/// graph without the input "positions").
Graph functional_form(const Graph& graph);

}  // namespace rlx
