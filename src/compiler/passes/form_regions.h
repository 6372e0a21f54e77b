// Gathers element-wise ops and reductions over the last axis into regions, each of which is one pass over memory
// (ops/region.h). Test: tests/passes/form_regions.rlx.
#pragma once

#include "compiler/pass.h"

namespace rlx {

bool form_regions(Graph&, const PassContext&);

}  // namespace rlx
