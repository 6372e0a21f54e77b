// Replaces nodes whose operands are all constants by their value, computed by the interpreter
// (tests/passes/fold_constants.rlx). An `if` on a constant becomes the branch that it takes.
#pragma once

#include "compiler/pass.h"

namespace rlx {

bool fold_constants(Graph& graph, const PassContext& context);

}  // namespace rlx
