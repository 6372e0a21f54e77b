// Replaces fused ops by their bodies where the dispatch config says so or the backend has no
// kernel. Test: tests/passes/common_form.rlx.
#pragma once

#include "compiler/pass.h"

namespace rlx {

bool common_form(Graph& graph, const PassContext& context);

}  // namespace rlx
