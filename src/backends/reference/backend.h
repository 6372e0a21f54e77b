// The reference backend: no kernels of its own, so every op runs as the interpreter's reference on
// the host, on plain layouts. It is the backend to clone for a new device.
#pragma once

#include "device/backend.h"

namespace rlx::reference {

const Backend& backend();

}  // namespace rlx::reference
