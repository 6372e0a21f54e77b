// Products whose weights a checkpoint keeps as rows of one matrix.
#pragma once

#include "flow/flow.h"
#include "ops/activation.h"

namespace rlx {

/// A stored matrix [out, in], and its bias [out] where the key is not empty.
struct StoredLinear {
  std::string weight, bias;
  std::int64_t out = 0, in = 0;
};

/// act(x w^T + b) with rows first .. first + count - 1 of w and b.
Value project_rows(FlowCtx& ctx, Value x, const StoredLinear& w, FlowCtx::RowRange rows,
                   Act act = Act::none);
/// The same with all rows.
Value project(FlowCtx& ctx, Value x, const StoredLinear& w, Act act = Act::none);
/// Values first .. first + count - 1 of a stored vector [n], f32.
Value vector_part(FlowCtx& ctx, const std::string& key, std::int64_t n, FlowCtx::RowRange part);

}  // namespace rlx
