// Joins nodes with equal op, attributes and operands. State ops and sources stay apart. Test:
// tests/passes/cse.rlx.
#pragma once

#include "compiler/pass.h"

namespace rlx {

bool cse(Graph& graph, const PassContext& context);

}  // namespace rlx
