// Takes the norm and the conversion of a product's input into the product. Test: tests/passes/fuse_product_input.rlx.
#pragma once

#include "compiler/pass.h"

namespace rlx {

bool fuse_product_input(Graph&, const PassContext&);

}  // namespace rlx
