// rope of q and of k, per-head norms before them, and kv_append -> rope_append. Test:
// tests/passes/fuse_rope_append.rlx.
#pragma once

#include "compiler/pass.h"

namespace rlx {

bool fuse_rope_append(Graph& graph, const PassContext& context);

}  // namespace rlx
