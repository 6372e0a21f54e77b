// Results that stay in the form in which the next kernel reads them.
#pragma once

#include "device/program.h"

namespace rlx {

/// A result that only one other call of the tile registers reads gets the layout p16, which is the backend's own, if
/// both rows take that: the reader then makes no form of its own, which takes a tenth of a prompt. Part of lower().
void keep_packed(Program& program);

}  // namespace rlx
