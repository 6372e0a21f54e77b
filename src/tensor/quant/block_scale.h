// The floating scales of a block of a file. All other bytes of a block are valid whatever they are, so random blocks
// are random bytes with these set: random models and samples of tests are made so.
#pragma once

#include <cstddef>

#include "tensor/dtype.h"

namespace rlx {

/// Sets a block's scale to d, rounded to what the format holds, and to m the scale of its minima or its minimum where
/// the format has one. mxfp4 takes the power of two nearest to d's magnitude. RLX_CHECK: a format of GGUF files.
void set_block_scale(DType dtype, std::byte* block, float d, float m);

}  // namespace rlx
