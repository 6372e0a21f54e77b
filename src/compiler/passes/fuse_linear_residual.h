// add(linear(x, w), r) with r of the result's shape -> linear with residual. Test:
// tests/passes/fuse_linear_residual.rlx.
#pragma once

#include "compiler/pass.h"

namespace rlx {

bool fuse_linear_residual(Graph& graph, const PassContext& context);

}  // namespace rlx
