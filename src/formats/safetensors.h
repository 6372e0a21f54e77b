// safetensors files (https://github.com/huggingface/safetensors#format), single or sharded with an index, memory-mapped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "tensor/dtype.h"

namespace rlx {

struct SafetensorsTensor {
  std::string name;
  DType dtype;  ///< F64 F32 F16 BF16 I64 I32 I16 I8 U64 U32 U16 U8 BOOL
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

/// One file. Errors as GgufFile: io, format (file, offset and reason), unsupported (an element type such as F8_E4M3).
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  ~SafetensorsFile();

  const std::string& path() const;
  const MappedFile& file() const;
  std::span<const SafetensorsTensor> tensors() const;  ///< in the order of the data
  const SafetensorsTensor* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The checkpoint of a folder: `model.safetensors`, or the shards that `model.safetensors.index.json` names. Each tensor of
/// the index must be in the shard that the index names; a tensor in two shards is an error.
std::vector<SafetensorsFile> open_safetensors_folder(const std::filesystem::path& folder);

}  // namespace rlx
