// Takes away what moves or converts values only to move or convert them back: pairs of transposes, reshapes and casts,
// also with element-wise ops between them, and repeats that broadcasting does anyway. Test:
// tests/passes/propagate_layout.rlx.
#pragma once

#include "compiler/pass.h"

namespace rlx {

bool propagate_layout(Graph&, const PassContext&);

}  // namespace rlx
