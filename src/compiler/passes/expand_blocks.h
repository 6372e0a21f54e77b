// Replaces every composite op of HIR by its body, until none is left; the graph becomes MIR. Test:
// tests/passes/expand_blocks.rlx.
#pragma once

#include "compiler/pass.h"

namespace rlx {

bool expand_blocks(Graph& graph, const PassContext& context);

}  // namespace rlx
