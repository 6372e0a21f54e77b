// Drops nodes that no output and no state update needs (tests/passes/dce.rlx).
#pragma once

#include "compiler/pass.h"

namespace rlx {

bool dce(Graph& graph, const PassContext& context);

}  // namespace rlx
