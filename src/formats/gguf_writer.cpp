#include "formats/gguf_writer.h"

#include <bit>
#include <cstring>

#include "base/checked.h"
#include "formats/byte_reader.h"
#include "formats/gguf_impl.h"

namespace rlx {
namespace {

template <typename T>
void append(std::vector<std::byte>& out, T value) {
  const auto* p = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), p, p + sizeof value);
}

void append_string(std::vector<std::byte>& out, std::string_view text) {
  append<std::uint64_t>(out, text.size());
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

template <typename T>
void append_checked(std::vector<std::byte>& out, std::string_view key, GgufType type,
                    std::int64_t value) {
  const auto narrow = checked_cast<T>(value);
  if (!narrow)
    fail(ErrorCode::invalid_argument, "key {}: {} does not fit in {}", quote(key), value,
         name(type));
  append(out, *narrow);
}

void append_int(std::vector<std::byte>& out, std::string_view key, GgufType type,
                std::int64_t value) {
  switch (type) {
    case GgufType::u8:
      return append_checked<std::uint8_t>(out, key, type, value);
    case GgufType::i8:
      return append_checked<std::int8_t>(out, key, type, value);
    case GgufType::u16:
      return append_checked<std::uint16_t>(out, key, type, value);
    case GgufType::i16:
      return append_checked<std::int16_t>(out, key, type, value);
    case GgufType::u32:
      return append_checked<std::uint32_t>(out, key, type, value);
    case GgufType::i32:
      return append_checked<std::int32_t>(out, key, type, value);
    case GgufType::u64:
      return append_checked<std::uint64_t>(out, key, type, value);
    case GgufType::i64:
      return append(out, value);
    case GgufType::boolean:
      if (value == 0 || value == 1) return append(out, static_cast<std::uint8_t>(value));
      fail(ErrorCode::invalid_argument, "key {}: bool: expected 0 or 1, found {}", quote(key),
           value);
    default:
      fail(ErrorCode::invalid_argument, "key {}: {} is no integer type", quote(key), name(type));
  }
}

void append_float(std::vector<std::byte>& out, std::string_view key, GgufType type, double value) {
  if (type == GgufType::f32)
    append(out, static_cast<float>(value));
  else if (type == GgufType::f64)
    append(out, value);
  else
    fail(ErrorCode::invalid_argument, "key {}: {} is no floating-point type", quote(key),
         name(type));
}

// Size in bytes of a tensor that the format can hold.
std::int64_t tensor_bytes(std::string_view tensor, DType dtype,
                          std::span<const std::int64_t> shape) {
  const DTypeInfo& t = info(dtype);
  if (t.gguf_id < 0)
    fail(ErrorCode::invalid_argument, "tensor {}: GGUF has no type {}", quote(tensor), t.name);
  if (shape.size() > 4)
    fail(ErrorCode::invalid_argument, "tensor {}: expected at most 4 dimensions, found {}",
         quote(tensor), shape.size());
  std::optional<std::int64_t> elements = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0)
      fail(ErrorCode::invalid_argument, "tensor {}: negative dimension {}", quote(tensor), extent);
    if (elements) elements = checked_mul(*elements, extent);
  }
  if ((shape.empty() ? 1 : shape.back()) % t.block_elements != 0)
    fail(ErrorCode::invalid_argument, "tensor {}: {} needs rows of a multiple of {} elements",
         quote(tensor), t.name, t.block_elements);
  const auto bytes = elements
                         ? checked_mul<std::int64_t>(*elements / t.block_elements, t.block_bytes)
                         : std::nullopt;
  if (!bytes)
    fail(ErrorCode::invalid_argument, "tensor {}: its size does not fit in 63 bits", quote(tensor));
  return *bytes;
}

void pad(std::vector<std::byte>& out, std::size_t alignment) {
  out.resize((out.size() + alignment - 1) / alignment * alignment);
}

}  // namespace

GgufWriter::GgufWriter(std::uint32_t version, std::uint32_t alignment)
    : version_(version), alignment_(alignment) {
  if (version < 2 || version > 3)
    fail(ErrorCode::invalid_argument, "GGUF version: expected 2 or 3, found {}", version);
  if (alignment < 8 || !std::has_single_bit(alignment))
    fail(ErrorCode::invalid_argument, "GGUF alignment: expected a power of two from 8 up, found {}",
         alignment);
  if (alignment != 32) put_int("general.alignment", GgufType::u32, alignment);
}

void GgufWriter::begin_value(std::string_view key, GgufType type) {
  if (key.size() > 65535)
    fail(ErrorCode::invalid_argument, "key {}: longer than 65535 bytes", quote(key));
  if (!key_names_.emplace(key).second)
    fail(ErrorCode::invalid_argument, "duplicate key {}", quote(key));
  append_string(metadata_, key);
  append(metadata_, static_cast<std::uint32_t>(type));
  ++keys_;
}

void GgufWriter::put_int(std::string_view key, GgufType type, std::int64_t value) {
  std::vector<std::byte> encoded;
  append_int(encoded, key, type, value);
  put_raw(key, type, encoded);
}

void GgufWriter::put_float(std::string_view key, GgufType type, double value) {
  std::vector<std::byte> encoded;
  append_float(encoded, key, type, value);
  put_raw(key, type, encoded);
}

void GgufWriter::put_bool(std::string_view key, bool value) {
  put_int(key, GgufType::boolean, value);
}

void GgufWriter::put_string(std::string_view key, std::string_view value) {
  begin_value(key, GgufType::string);
  append_string(metadata_, value);
}

void GgufWriter::put_strings(std::string_view key, std::span<const std::string_view> values) {
  begin_value(key, GgufType::array);
  append(metadata_, static_cast<std::uint32_t>(GgufType::string));
  append<std::uint64_t>(metadata_, values.size());
  for (const std::string_view text : values) append_string(metadata_, text);
}

void GgufWriter::put_ints(std::string_view key, GgufType element,
                          std::span<const std::int64_t> values) {
  std::vector<std::byte> encoded;
  append(encoded, static_cast<std::uint32_t>(element));
  append<std::uint64_t>(encoded, values.size());
  for (const std::int64_t value : values) append_int(encoded, key, element, value);
  put_raw(key, GgufType::array, encoded);
}

void GgufWriter::put_floats(std::string_view key, GgufType element,
                            std::span<const double> values) {
  std::vector<std::byte> encoded;
  append(encoded, static_cast<std::uint32_t>(element));
  append<std::uint64_t>(encoded, values.size());
  for (const double value : values) append_float(encoded, key, element, value);
  put_raw(key, GgufType::array, encoded);
}

void GgufWriter::put_raw(std::string_view key, GgufType type, std::span<const std::byte> value) {
  begin_value(key, type);
  metadata_.insert(metadata_.end(), value.begin(), value.end());
}

void GgufWriter::add_tensor(std::string_view name, DType dtype, std::span<const std::int64_t> shape,
                            std::span<const std::byte> data) {
  if (name.size() > 64)
    fail(ErrorCode::invalid_argument, "tensor {}: name longer than 64 bytes", quote(name));
  const std::int64_t bytes = tensor_bytes(name, dtype, shape);
  if (static_cast<std::uint64_t>(bytes) != data.size())
    fail(ErrorCode::invalid_argument, "tensor {}: expected {} bytes, found {}", quote(name), bytes,
         data.size());
  if (!tensor_names_.emplace(name).second)
    fail(ErrorCode::invalid_argument, "duplicate tensor name {}", quote(name));
  tensors_.push_back({std::string(name), dtype, {shape.begin(), shape.end()}, data});
}

std::vector<std::byte> GgufWriter::bytes() const {
  std::vector<std::byte> out;
  for (const char c : std::string_view("GGUF")) append(out, c);
  append(out, version_);
  append<std::uint64_t>(out, tensors_.size());
  append(out, keys_);
  out.insert(out.end(), metadata_.begin(), metadata_.end());
  std::uint64_t offset = 0;
  for (const GgufTensor& t : tensors_) {
    append_string(out, t.name);
    append(out, static_cast<std::uint32_t>(t.shape.size()));
    for (auto extent = t.shape.rbegin(); extent != t.shape.rend(); ++extent) append(out, *extent);
    append(out, static_cast<std::uint32_t>(info(t.dtype).gguf_id));
    append(out, offset);
    offset += (t.data.size() + alignment_ - 1) / alignment_ * alignment_;
  }
  for (const GgufTensor& t : tensors_) {
    pad(out, alignment_);
    out.insert(out.end(), t.data.begin(), t.data.end());
  }
  if (!tensors_.empty()) pad(out, alignment_);
  return out;
}

void GgufWriter::write(const std::filesystem::path& path) const {
  write_file_atomic(path, bytes());
}

}  // namespace rlx
