#include "formats/safetensors_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/checked.h"
#include "formats/byte_reader.h"

namespace rlx {
namespace {

std::string_view type_name(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "F64";
    case DType::f32:
      return "F32";
    case DType::f16:
      return "F16";
    case DType::bf16:
      return "BF16";
    case DType::i64:
      return "I64";
    case DType::i32:
      return "I32";
    case DType::i16:
      return "I16";
    case DType::i8:
      return "I8";
    case DType::u64:
      return "U64";
    case DType::u32:
      return "U32";
    case DType::u16:
      return "U16";
    case DType::u8:
      return "U8";
    case DType::boolean:
      return "BOOL";
    default:
      return {};
  }
}

// A JSON string; throws for text that is not UTF-8.
std::string json_string(std::string_view text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::invalid_argument, "{}: not valid UTF-8", quote(text));
  }
}

}  // namespace

void SafetensorsWriter::set_metadata(std::string_view key, std::string_view value) {
  metadata_[std::string(key)] = value;
}

void SafetensorsWriter::add(std::string_view name, DType dtype, std::span<const std::int64_t> shape,
                            std::span<const std::byte> data) {
  if (name == "__metadata__")
    fail(ErrorCode::invalid_argument, "'__metadata__' cannot be the name of a tensor");
  if (type_name(dtype).empty())
    fail(ErrorCode::invalid_argument, "tensor {}: safetensors has no type {}", quote(name),
         rlx::name(dtype));
  std::optional<std::int64_t> bytes = info(dtype).block_bytes;
  for (const std::int64_t extent : shape) {
    if (extent < 0)
      fail(ErrorCode::invalid_argument, "tensor {}: negative dimension {}", quote(name), extent);
    if (bytes) bytes = checked_mul(*bytes, extent);
  }
  if (!bytes || static_cast<std::uint64_t>(*bytes) != data.size())
    fail(ErrorCode::invalid_argument, "tensor {}: shape and dtype need {} bytes, found {}",
         quote(name), bytes ? fmt::format("{}", *bytes) : "more than 2^63", data.size());
  if (!names_.emplace(name).second)
    fail(ErrorCode::invalid_argument, "duplicate tensor name {}", quote(name));
  tensors_.push_back({std::string(name), dtype, {shape.begin(), shape.end()}, data});
}

std::vector<std::byte> SafetensorsWriter::bytes() const {
  std::vector<const SafetensorsTensor*> order;
  for (const SafetensorsTensor& t : tensors_) order.push_back(&t);
  std::stable_sort(order.begin(), order.end(),
                   [](const SafetensorsTensor* a, const SafetensorsTensor* b) {
                     return info(a->dtype).block_bytes > info(b->dtype).block_bytes;
                   });
  std::vector<std::string> members;
  if (!metadata_.empty()) {
    std::vector<std::string> pairs;
    for (const auto& [key, value] : metadata_)
      pairs.push_back(json_string(key) + ":" + json_string(value));
    members.push_back(fmt::format("\"__metadata__\":{{{}}}", fmt::join(pairs, ",")));
  }
  std::size_t offset = 0;
  for (const SafetensorsTensor* t : order) {
    members.push_back(fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                                  json_string(t->name), type_name(t->dtype),
                                  fmt::join(t->shape, ","), offset, offset + t->data.size()));
    offset += t->data.size();
  }
  std::string header = fmt::format("{{{}}}", fmt::join(members, ","));
  header.resize((header.size() + 7) / 8 * 8, ' ');  // the data start aligned
  const std::uint64_t header_bytes = header.size();
  const auto* length = reinterpret_cast<const std::byte*>(&header_bytes);
  std::vector<std::byte> out(length, length + sizeof header_bytes);
  const auto text = std::as_bytes(std::span(header));
  out.insert(out.end(), text.begin(), text.end());
  for (const SafetensorsTensor* t : order) out.insert(out.end(), t->data.begin(), t->data.end());
  return out;
}

void SafetensorsWriter::write(const std::filesystem::path& path) const {
  write_file_atomic(path, bytes());
}

}  // namespace rlx
