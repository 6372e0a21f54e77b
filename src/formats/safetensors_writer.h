// Writes safetensors files (https://github.com/huggingface/safetensors#format).
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/safetensors.h"

namespace rlx {

/// Collects tensors. The data come in falling order of element size, equal sizes as they were
/// added, so that every tensor is aligned for its type. Errors (invalid_argument): a name used
/// twice or not UTF-8, `__metadata__` as a name, data whose size is not that of shape and dtype, a
/// dtype that the format lacks.
class SafetensorsWriter {
 public:
  void set_metadata(std::string_view key, std::string_view value);
  /// `data` must stay valid until bytes() or write().
  void add(std::string_view name, DType dtype, std::span<const std::int64_t> shape,
           std::span<const std::byte> data);

  std::vector<std::byte> bytes() const;
  void write(const std::filesystem::path& path) const;  ///< atomic; errors: io

 private:
  std::map<std::string, std::string> metadata_;
  std::vector<SafetensorsTensor> tensors_;
  std::set<std::string, std::less<>> names_;
};

}  // namespace rlx
