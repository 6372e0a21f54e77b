// A matrix product with a param is a product with weights: packed once, and fused with bias, activation and residual as
// those are. Test: tests/passes/matmul_to_linear.rlx.
#pragma once

#include "compiler/pass.h"

namespace rlx {

bool matmul_to_linear(Graph&, const PassContext&);

}  // namespace rlx
