// Products whose weights a checkpoint keeps as rows of one matrix.
#pragma once

#include "flow/blocks/linear.h"

namespace rlx {

/// As emit_linear, with rows first .. first + count - 1 of weight and bias.
Value project_rows(FlowCtx& ctx, Value x, const LinearSpec& spec, FlowCtx::RowRange rows);
/// Values first .. first + count - 1 of a stored vector [n], f32.
Value vector_part(FlowCtx& ctx, const std::string& key, std::int64_t n, FlowCtx::RowRange part);

}  // namespace rlx
