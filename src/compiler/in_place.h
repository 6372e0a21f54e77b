// Results that take over the buffer of an operand (kernels.md, section 5: in place at the last use).
#pragma once

#include "device/program.h"

namespace rlx {

/// Gives result 0 of a call the buffer of the operand that its op names (`OpDef::in_place`), when no later call, output
/// or iteration reads that buffer, both have one shape and no other operand lies in it. The live ranges must be set.
/// The buffer's range then reaches to the last use of the result.
void share_in_place(Program& program);

}  // namespace rlx
