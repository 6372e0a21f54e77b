// Writes GGUF files (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): little-endian,
// tensors aligned.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"

namespace rlx {

/// Collects metadata and tensors in the order in which the file will hold them. Errors
/// (invalid_argument): a key or tensor name used twice or too long, a value that its type cannot
/// hold, data whose size is not that of shape and dtype, a dtype that the format lacks.
class GgufWriter {
 public:
  /// version: 2 or 3. alignment: a power of two from 8 up (other readers take no other multiples of
  /// 8); the default of the format, 32, is not written as a key.
  explicit GgufWriter(std::uint32_t version = 3, std::uint32_t alignment = 32);

  void put_int(std::string_view key, GgufType type, std::int64_t value);
  void put_float(std::string_view key, GgufType type, double value);  ///< f32 (rounded) or f64
  void put_bool(std::string_view key, bool value);
  void put_string(std::string_view key, std::string_view value);
  void put_strings(std::string_view key, std::span<const std::string_view> values);
  void put_ints(std::string_view key, GgufType element,
                std::span<const std::int64_t> values);  ///< also boolean: 0, 1
  void put_floats(std::string_view key, GgufType element, std::span<const double> values);
  /// A value encoded by the caller, as it will stand in the file: any type, nested arrays included.
  /// Not checked.
  void put_raw(std::string_view key, GgufType type, std::span<const std::byte> value);

  /// shape: row-major (slowest first), at most 4 extents. `data` must stay valid until bytes() or
  /// write().
  void add_tensor(std::string_view name, DType dtype, std::span<const std::int64_t> shape,
                  std::span<const std::byte> data);

  std::vector<std::byte> bytes() const;
  void write(const std::filesystem::path& path) const;  ///< atomic; errors: io

 private:
  void begin_value(std::string_view key, GgufType type);

  std::uint32_t version_, alignment_;
  std::vector<std::byte> metadata_;  // all key-value pairs, encoded
  std::uint64_t keys_ = 0;
  std::vector<GgufTensor> tensors_;
  std::set<std::string, std::less<>> key_names_, tensor_names_;
};

}  // namespace rlx
