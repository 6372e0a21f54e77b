// Names of devices.
#pragma once

#include <string>
#include <string_view>

namespace rlx {

/// A device by kind and ordinal: "cpu", "reference", "cuda:0".
struct Device {
  std::string kind = "cpu";
  int ordinal = 0;
  static Device cpu() { return {"cpu", 0}; }
  static Device reference() { return {"reference", 0}; }
  /// Error(usage) that lists the known kinds.
  static Device parse(std::string_view text);
  std::string text() const;
  bool operator==(const Device&) const = default;
};

}  // namespace rlx
