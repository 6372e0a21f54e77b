// What a GgufFile holds; shared by the parser (gguf.cpp) and the getters (gguf_metadata.cpp).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"

namespace rlx {

/// A metadata value: where its bytes lie. Scalars: the number; strings: the text; arrays: the
/// elements as in the file.
struct GgufValue {
  std::string_view key;
  GgufType type;
  GgufType element;     // of arrays; else equal to type
  std::uint64_t count;  // of arrays: elements; else 1
  std::span<const std::byte> bytes;
};

/// What the parser makes of the file's bytes.
struct GgufContent {
  std::uint32_t version = 0;
  std::uint32_t alignment = 32;
  std::vector<GgufValue> values;
  std::vector<GgufTensor> tensors;
  // Positions sorted by name. Not hash tables: names come from the file, and a chosen set of
  // colliding names must not make opening quadratic.
  std::vector<std::uint32_t> values_by_key, tensors_by_name;
};

struct GgufFile::Impl : GgufContent {
  std::optional<MappedFile> mapped;
  std::string path;
  std::span<const std::byte> bytes;

  const GgufValue* find_value(std::string_view key) const;
};

/// Bytes of a number in the file; 0 for strings and arrays.
std::size_t gguf_type_bytes(GgufType type);

}  // namespace rlx
