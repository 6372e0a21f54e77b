// A product with a weight; scaling; the rows whose result is wanted.
#pragma once

#include "flow/flow.h"
#include "ops/activation.h"

namespace rlx {

struct LinearSpec {
  std::string weight;  ///< key of [out, in]; empty: the token embedding (tied)
  std::string bias;    ///< key of [out]; empty: none
  std::int64_t in = 0, out = 0;
  Act act = Act::none;
};

/// act(x weight^T + bias), for blocks that hold several products.
Value emit_linear(FlowCtx& ctx, Value x, const LinearSpec& spec);

/// hidden = act(hidden weight^T + bias). Reads the slot `embedding` when the weight is tied.
FlowStage linear(LinearSpec spec);
/// hidden = hidden * factor.
FlowStage scale_hidden(float factor);
/// hidden = the rows that the input "out_rows" names.
FlowStage wanted_rows();

}  // namespace rlx
