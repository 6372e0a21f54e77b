// The typed getters of GgufFile. The parser has checked all lengths; here only types and ranges can
// be wrong.
#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "formats/byte_reader.h"
#include "formats/gguf_impl.h"

namespace rlx {
namespace {

template <typename T>
T load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

bool is_integer(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::u16:
    case GgufType::i16:
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::u64:
    case GgufType::i64:
      return true;
    default:
      return false;
  }
}

bool is_floating(GgufType type) { return type == GgufType::f32 || type == GgufType::f64; }

// The integer or bool at p; nothing when it is above the range of int64.
std::optional<std::int64_t> load_int(GgufType type, const std::byte* p) {
  switch (type) {
    case GgufType::u8:
    case GgufType::boolean:
      return load<std::uint8_t>(p);
    case GgufType::i8:
      return load<std::int8_t>(p);
    case GgufType::u16:
      return load<std::uint16_t>(p);
    case GgufType::i16:
      return load<std::int16_t>(p);
    case GgufType::u32:
      return load<std::uint32_t>(p);
    case GgufType::i32:
      return load<std::int32_t>(p);
    case GgufType::i64:
      return load<std::int64_t>(p);
    default:
      return checked_cast<std::int64_t>(load<std::uint64_t>(p));
  }
}

std::string type_text(const GgufValue& v) {
  if (v.type != GgufType::array) return std::string(name(v.type));
  return fmt::format("array of {}", name(v.element));
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

[[noreturn]] void wrong_type(const std::string& path, const GgufValue& v,
                             std::string_view expected) {
  fail(ErrorCode::format, "{}: key {}: expected {}, found {}", path, quote(v.key), expected,
       type_text(v));
}

[[noreturn]] void out_of_range(const std::string& path, const GgufValue& v, const std::byte* p) {
  fail(ErrorCode::format, "{}: key {}: {} is above the largest integer, 2^63 - 1", path,
       quote(v.key), load<std::uint64_t>(p));
}

std::string printable(const GgufValue& v) {
  if (v.type == GgufType::array) return fmt::format("[{} x {}]", v.count, name(v.element));
  if (v.type == GgufType::string) return quote(text_of(v.bytes), 60);
  if (v.type == GgufType::boolean) return v.bytes[0] == std::byte{1} ? "true" : "false";
  if (v.type == GgufType::f32) return fmt::format("{}", load<float>(v.bytes.data()));
  if (v.type == GgufType::f64) return fmt::format("{}", load<double>(v.bytes.data()));
  if (v.type == GgufType::u64) return fmt::format("{}", load<std::uint64_t>(v.bytes.data()));
  return fmt::format("{}", *load_int(v.type, v.bytes.data()));
}

}  // namespace

const GgufValue* GgufFile::Impl::find_value(std::string_view key) const {
  const auto at = std::lower_bound(
      values_by_key.begin(), values_by_key.end(), key,
      [&](std::uint32_t i, std::string_view wanted) { return values[i].key < wanted; });
  return at != values_by_key.end() && values[*at].key == key ? &values[*at] : nullptr;
}

bool GgufFile::has(std::string_view key) const { return impl_->find_value(key) != nullptr; }

std::optional<std::int64_t> GgufFile::get_int(std::string_view key) const {
  const GgufValue* v = impl_->find_value(key);
  if (v == nullptr) return std::nullopt;
  if (!is_integer(v->type)) wrong_type(impl_->path, *v, "an integer");
  const auto value = load_int(v->type, v->bytes.data());
  if (!value) out_of_range(impl_->path, *v, v->bytes.data());
  return value;
}

std::optional<double> GgufFile::get_float(std::string_view key) const {
  const GgufValue* v = impl_->find_value(key);
  if (v == nullptr) return std::nullopt;
  if (!is_floating(v->type)) wrong_type(impl_->path, *v, "f32 or f64");
  return v->type == GgufType::f32 ? load<float>(v->bytes.data()) : load<double>(v->bytes.data());
}

std::optional<bool> GgufFile::get_bool(std::string_view key) const {
  const GgufValue* v = impl_->find_value(key);
  if (v == nullptr) return std::nullopt;
  if (v->type != GgufType::boolean) wrong_type(impl_->path, *v, "bool");
  return v->bytes[0] == std::byte{1};
}

std::optional<std::string_view> GgufFile::get_string(std::string_view key) const {
  const GgufValue* v = impl_->find_value(key);
  if (v == nullptr) return std::nullopt;
  if (v->type != GgufType::string) wrong_type(impl_->path, *v, "string");
  return text_of(v->bytes);
}

std::optional<std::vector<std::string_view>> GgufFile::get_strings(std::string_view key) const {
  const GgufValue* v = impl_->find_value(key);
  if (v == nullptr) return std::nullopt;
  if (v->type != GgufType::array || v->element != GgufType::string)
    wrong_type(impl_->path, *v, "array of string");
  std::vector<std::string_view> out;
  out.reserve(v->count);
  ByteReader in(v->bytes, impl_->path);
  for (std::uint64_t i = 0; i < v->count; ++i) out.push_back(in.string("string of an array"));
  return out;
}

std::optional<std::vector<float>> GgufFile::get_floats(std::string_view key) const {
  const GgufValue* v = impl_->find_value(key);
  if (v == nullptr) return std::nullopt;
  if (v->type != GgufType::array || !is_floating(v->element))
    wrong_type(impl_->path, *v, "array of f32 or f64");
  std::vector<float> out(v->count);
  for (std::uint64_t i = 0; i < v->count; ++i)
    out[i] = v->element == GgufType::f32
                 ? load<float>(v->bytes.data() + 4 * i)
                 : static_cast<float>(load<double>(v->bytes.data() + 8 * i));
  return out;
}

std::optional<std::vector<std::int64_t>> GgufFile::get_ints(std::string_view key) const {
  const GgufValue* v = impl_->find_value(key);
  if (v == nullptr) return std::nullopt;
  if (v->type != GgufType::array || !(is_integer(v->element) || v->element == GgufType::boolean))
    wrong_type(impl_->path, *v, "array of integers or bool");
  std::vector<std::int64_t> out(v->count);
  const std::size_t step = gguf_type_bytes(v->element);
  for (std::uint64_t i = 0; i < v->count; ++i) {
    const std::byte* p = v->bytes.data() + step * i;
    const auto value = load_int(v->element, p);
    if (!value) out_of_range(impl_->path, *v, p);
    out[i] = *value;
  }
  return out;
}

std::optional<std::span<const std::byte>> GgufFile::get_raw(std::string_view key) const {
  const GgufValue* v = impl_->find_value(key);
  if (v == nullptr) return std::nullopt;
  return v->bytes;
}

std::vector<GgufFile::Entry> GgufFile::metadata() const {
  std::vector<Entry> out;
  out.reserve(impl_->values.size());
  for (const GgufValue& v : impl_->values)
    out.push_back({std::string(v.key), v.type, v.element, printable(v)});
  return out;
}

}  // namespace rlx
