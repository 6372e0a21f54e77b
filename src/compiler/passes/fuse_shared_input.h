// Joins two or three products of one input into one call: Q, K and V of an attention. Test:
// tests/passes/fuse_shared_input.rlx.
#pragma once

#include "compiler/pass.h"

namespace rlx {

bool fuse_shared_input(Graph&, const PassContext&);

}  // namespace rlx
