// GGUF v2/v3 files (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): metadata and
// tensors, memory-mapped. Everything in the file is checked when it is opened; a GgufFile in hand
// is consistent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "tensor/dtype.h"

namespace rlx {

/// Type of a metadata value; the numbers are the file's.
enum class GgufType : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};
std::string_view name(GgufType type);

/// One tensor of the file. `shape` is row-major (slowest first: the reverse of the file's order),
/// so a weight of a product is [out, in]. `data` lies inside the mapping.
struct GgufTensor {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

class GgufFile {
 public:
  /// Maps and validates the file. Errors: io; format (file, offset and reason); unsupported (a
  /// block type that is not supported, named with its tensor).
  explicit GgufFile(const std::filesystem::path& path);
  /// The same over bytes in memory, which must outlive the file; `name` stands in messages. There
  /// is no file() then.
  static GgufFile from_bytes(std::span<const std::byte> bytes, std::string name);
  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;
  ~GgufFile();

  const std::string& path() const;
  const MappedFile& file() const;
  std::uint32_t version() const;    ///< 2 or 3
  std::uint32_t alignment() const;  ///< general.alignment, 32 when absent

  std::span<const GgufTensor> tensors() const;
  const GgufTensor* find(std::string_view name) const;  ///< nullptr when there is none

  /// Metadata. `has` tells whether a key is present; the typed getters throw Error(format) naming
  /// file, key, expected and found type when the type differs. Integers of any width convert when
  /// the value is in range; bool stays bool.
  bool has(std::string_view key) const;
  std::optional<std::int64_t> get_int(std::string_view key) const;
  std::optional<double> get_float(std::string_view key) const;  ///< f32 and f64
  std::optional<bool> get_bool(std::string_view key) const;
  std::optional<std::string_view> get_string(std::string_view key) const;
  /// Views into the mapping where the type allows it; strings are views of the file's bytes.
  std::optional<std::vector<std::string_view>> get_strings(std::string_view key) const;
  std::optional<std::vector<float>> get_floats(std::string_view key) const;
  std::optional<std::vector<std::int64_t>> get_ints(
      std::string_view key) const;  ///< integer or bool elements

  /// All keys in file order, with a short printable form of the value (arrays as "[n x type]"), for
  /// `rlx tensors`.
  struct Entry {
    std::string key;
    GgufType type;
    GgufType element;  ///< of an array: the type of its elements; else equal to type
    std::string text;
  };
  std::vector<Entry> metadata() const;
  /// The encoded value as it stands in the file: for strings without the length, for arrays the
  /// elements only.
  std::optional<std::span<const std::byte>> get_raw(std::string_view key) const;

 private:
  struct Impl;
  explicit GgufFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rlx
