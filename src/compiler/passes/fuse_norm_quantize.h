// quantize_rows(rms_norm(x, w)) -> rms_norm_quantize(x, w). Test:
// tests/passes/fuse_norm_quantize.rlx.
#pragma once

#include "compiler/pass.h"

namespace rlx {

bool fuse_norm_quantize(Graph& graph, const PassContext& context);

}  // namespace rlx
