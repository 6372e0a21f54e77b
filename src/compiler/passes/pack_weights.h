// Gives the weights of products the panels that the backend's kernels read. Test:
// tests/passes/pack_weights.rlx.
#pragma once

#include "compiler/pass.h"

namespace rlx {

bool pack_weights(Graph& graph, const PassContext& context);

}  // namespace rlx
