// mul(linear act(x, gate), linear(x, up)) -> gated_linear, when both weights have one storage type.
// Test: tests/passes/fuse_gated_linear.rlx.
#pragma once

#include "compiler/pass.h"

namespace rlx {

bool fuse_gated_linear(Graph& graph, const PassContext& context);

}  // namespace rlx
