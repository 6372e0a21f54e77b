// add(linear(x, w), bias[n]) -> linear(x, w, bias); activation(linear) -> linear with act, for
// values with one reader. Test: tests/passes/fuse_linear_bias.rlx.
#pragma once

#include "compiler/pass.h"

namespace rlx {

bool fuse_linear_bias(Graph& graph, const PassContext& context);

}  // namespace rlx
