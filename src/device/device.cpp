#include "device/device.h"

#include <charconv>

#include "base/error.h"

namespace rlx {

Device Device::parse(std::string_view text) {
  const std::size_t colon = text.find(':');
  Device d{std::string(text.substr(0, colon)), 0};
  const bool known = d.kind == "cpu" || d.kind == "reference" || d.kind == "cuda";
  if (colon != std::string_view::npos && known) {
    const std::string_view number = text.substr(colon + 1);
    const auto [end, ec] = std::from_chars(number.data(), number.data() + number.size(), d.ordinal);
    if (ec == std::errc{} && end == number.data() + number.size() && d.ordinal >= 0) return d;
  } else if (known) {
    return d;
  }
  fail(ErrorCode::usage, "--device: expected cpu, reference or cuda:N, found \"{}\"", text);
}

std::string Device::text() const {
  return ordinal == 0 ? kind : fmt::format("{}:{}", kind, ordinal);
}

}  // namespace rlx
