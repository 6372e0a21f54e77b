// Tensors of a file of reference results, checked for name and shape.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/safetensors.h"

namespace rlx {

class ReferenceTensors {
 public:
  explicit ReferenceTensors(const std::filesystem::path& path) : file_(path) {}

  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  /// Errors (format): absent, another rank, another element type.
  const SafetensorsTensor& find(const std::string& name, std::size_t rank) const;
  std::vector<float> floats(const std::string& name, std::size_t rank) const;
  std::vector<std::int32_t> ids(const std::string& name, std::size_t rank) const;
  /// Names that end with `suffix`, without it, in the order of the alphabet.
  std::vector<std::string> stems(std::string_view suffix) const;
  const std::string& path() const { return file_.path(); }

 private:
  SafetensorsFile file_;
};

}  // namespace rlx
