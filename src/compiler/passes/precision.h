// Chooses the activation format of each product and the dtype of KV states (kernels.md, 2.8). Test:
// tests/passes/precision.rlx.
#pragma once

#include "compiler/pass.h"

namespace rlx {

bool precision(Graph& graph, const PassContext& context);

}  // namespace rlx
