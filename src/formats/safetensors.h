// safetensors files (https://github.com/huggingface/safetensors#format), single or sharded with an
// index, memory-mapped.
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

/// One tensor of the file. `data` lies inside the mapping and may be misaligned for its type: the
/// format asks for none.
struct SafetensorsTensor {
  std::string name;
  DType dtype;  ///< F64 F32 F16 BF16 I64 I32 I16 I8 U64 U32 U16 U8 BOOL
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

/// One file. Errors as GgufFile: io, format (file, offset and reason), unsupported (an element type
/// such as F8_E4M3).
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  /// The same over bytes in memory, which must outlive the file; `name` stands in messages. There
  /// is no file() then.
  static SafetensorsFile from_bytes(std::span<const std::byte> bytes, std::string name);
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
  explicit SafetensorsFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The checkpoint of a folder: `model.safetensors`, or the shards that
/// `model.safetensors.index.json` names. Each tensor of the index must be in the shard that the
/// index names; a tensor in two shards is an error. Shards come sorted by name. A shard's name must
/// be a plain file name: nothing outside the folder can be named.
std::vector<SafetensorsFile> open_safetensors_folder(const std::filesystem::path& folder);

}  // namespace rlx
