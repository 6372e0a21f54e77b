// Moves select_rows up through ops that work row by row, so that they run for wanted rows only.
// Test: tests/passes/select_rows_up.rlx.
#pragma once

#include "compiler/pass.h"

namespace rlx {

bool select_rows_up(Graph& graph, const PassContext& context);

}  // namespace rlx
