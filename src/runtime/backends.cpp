#include "runtime/backends.h"

#include "backends/cpu/backend.h"
#include "backends/reference/backend.h"
#include "base/error.h"

namespace rlx {

const Backend& find_backend(const Device& device) {
  if (device == Device::cpu()) return cpu::backend();
  if (device == Device::reference()) return reference::backend();
  if (device.kind == "cuda")
    fail(ErrorCode::device, "{}: this build has no CUDA backend; available: cpu, reference",
         device.text());
  fail(ErrorCode::device, "{}: no such device; available: cpu, reference", device.text());
}

std::vector<Device> available_devices() { return {Device::cpu(), Device::reference()}; }

}  // namespace rlx
