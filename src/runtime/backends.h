// The list of backends: the one place that names them.
#pragma once

#include <vector>

#include "device/backend.h"

namespace rlx {

/// The backend of a device. Errors (device): the device is not there, with the reason.
const Backend& find_backend(const Device& device);
std::vector<Device> available_devices();

}  // namespace rlx
