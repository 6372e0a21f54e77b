#include "formats/gguf.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/checked.h"
#include "formats/byte_reader.h"
#include "formats/gguf_impl.h"

namespace rlx {
namespace {

// Limits of the format's description, and two of our own that keep the work on a hostile file
// small: the largest known models have some 100 keys and 3,000 tensors_.
constexpr std::uint64_t kMaxKeyBytes = 65535;
constexpr std::uint64_t kMaxTensorNameBytes = 64;
constexpr std::uint32_t kMaxDims = 4;
constexpr std::uint64_t kMaxKeys = 1u << 16;
constexpr std::uint64_t kMaxTensors = 1u << 17;
constexpr int kMaxArrayDepth = 4;

// Smallest encodings: what a count in the header claims is checked against the bytes that are left.
constexpr std::uint64_t kMinKeyBytes = 8 + 4 + 1;         // empty key, type, one byte
constexpr std::uint64_t kMinTensorBytes = 8 + 4 + 4 + 8;  // empty name, no dimensions, type, offset
constexpr std::uint64_t kMinStringBytes = 8, kMinArrayBytes = 4 + 8;

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, std::string_view path)
      : in_(bytes, path), bytes_(bytes) {}

  GgufContent parse() {
    header();
    for (std::uint64_t i = 0; i < key_count_; ++i) key_value();
    in_.set_owner("", "");
    index_keys();
    special_keys();
    for (std::uint64_t i = 0; i < tensor_count_; ++i) tensor_info();
    in_.set_owner("", "");
    index_tensors();
    place_tensors();
    return std::move(content_);
  }

 private:
  struct Place {
    std::uint64_t info;    // offset of the tensor's record in the file
    std::uint64_t offset;  // of the data, from the start of the data section
    std::uint64_t bytes;
  };

  void header() {
    const auto magic = in_.take(4, "magic");
    const std::string_view found(reinterpret_cast<const char*>(magic.data()), 4);
    if (found == "FUGG") big_endian();
    if (found != "GGUF")
      in_.fail(ErrorCode::format, 0, "magic: expected 'GGUF', found {}", quote(found));
    content_.version = in_.number<std::uint32_t>("version");
    if (const std::uint32_t swapped = __builtin_bswap32(content_.version);
        swapped >= 1 && swapped <= 3)
      big_endian();
    if (content_.version < 2 || content_.version > 3)
      in_.fail(content_.version == 0 ? ErrorCode::format : ErrorCode::unsupported, 4,
               "version: expected 2 or 3, found {}", content_.version);
    tensor_count_ = count("tensor count", kMinTensorBytes, kMaxTensors);
    key_count_ = count("key count", kMinKeyBytes, kMaxKeys);
    values_.reserve(key_count_);
  }

  [[noreturn]] void big_endian() const {
    in_.fail(ErrorCode::unsupported, 4,
             "version: the file is big-endian; only little-endian files are supported");
  }

  // A count whose items need at least `item_bytes` each in the rest of the file.
  std::uint64_t count(std::string_view field, std::uint64_t item_bytes,
                      std::uint64_t limit = UINT64_MAX) {
    const std::size_t at = in_.offset();
    const auto n = in_.number<std::uint64_t>(field);
    if (n > in_.left() / item_bytes)
      in_.fail(ErrorCode::format, at,
               "{}: {} items of at least {} bytes, but {} bytes are left in the file", field, n,
               item_bytes, in_.left());
    if (n > limit)
      in_.fail(ErrorCode::format, at, "{}: expected at most {}, found {}", field, limit, n);
    return n;
  }

  GgufType type(std::string_view field) {
    const std::size_t at = in_.offset();
    const auto id = in_.number<std::uint32_t>(field);
    if (id > static_cast<std::uint32_t>(GgufType::f64))
      in_.fail(ErrorCode::format, at, "{}: expected 0 to 12, found {}", field, id);
    return static_cast<GgufType>(id);
  }

  void key_value() {
    in_.set_owner("", "");
    GgufValue v{};
    v.key = in_.string("key", kMaxKeyBytes);
    in_.set_owner("key", v.key);
    v.type = v.element = type("value type");
    v.count = 1;
    if (v.type == GgufType::string) {
      const std::string_view text = in_.string("string");
      v.bytes = std::as_bytes(std::span(text.data(), text.size()));
    } else if (v.type == GgufType::array) {
      const auto [element, n] = array_head();
      v.element = element;
      v.count = n;
      const std::size_t begin = in_.offset();
      skip_elements(element, n, 1);
      v.bytes = bytes_.subspan(begin, in_.offset() - begin);
    } else {
      const std::size_t at = in_.offset();
      v.bytes = in_.take(gguf_type_bytes(v.type), "value");
      if (v.type == GgufType::boolean) check_bools(v.bytes, at);
    }
    values_.push_back(v);
  }

  std::pair<GgufType, std::uint64_t> array_head() {
    const GgufType element = type("array element type");
    std::uint64_t item = gguf_type_bytes(element);
    if (element == GgufType::string) item = kMinStringBytes;
    if (element == GgufType::array) item = kMinArrayBytes;
    return {element, count("array length", item)};
  }

  // Recursion ends at kMaxArrayDepth.
  void skip_elements(GgufType element, std::uint64_t n, int depth) {
    if (depth > kMaxArrayDepth)
      in_.fail(ErrorCode::format, in_.offset(), "arrays are nested more than {} deep",
               kMaxArrayDepth);
    if (element == GgufType::string) {
      for (std::uint64_t i = 0; i < n; ++i) in_.string("string of an array");
    } else if (element == GgufType::array) {
      for (std::uint64_t i = 0; i < n; ++i) {
        const auto [inner, inner_n] = array_head();
        skip_elements(inner, inner_n, depth + 1);
      }
    } else {
      const std::size_t at = in_.offset();
      // array_head() has checked that n elements fit into the file, so the product is small.
      const auto data = in_.take(n * gguf_type_bytes(element), "array");
      if (element == GgufType::boolean) check_bools(data, at);
    }
  }

  void check_bools(std::span<const std::byte> data, std::size_t at) const {
    const auto bad =
        std::find_if(data.begin(), data.end(), [](std::byte b) { return b > std::byte{1}; });
    if (bad != data.end())
      in_.fail(ErrorCode::format, at + static_cast<std::size_t>(bad - data.begin()),
               "bool value: expected 0 or 1, found {}", static_cast<int>(*bad));
  }

  std::size_t offset_of(const void* p) const {
    return static_cast<std::size_t>(static_cast<const std::byte*>(p) - bytes_.data());
  }

  void index_keys() {
    content_.values_by_key.resize(values_.size());
    std::iota(content_.values_by_key.begin(), content_.values_by_key.end(), 0u);
    // Equal keys stay in file order, so that the message points at the second one.
    std::sort(content_.values_by_key.begin(), content_.values_by_key.end(),
              [&](std::uint32_t a, std::uint32_t b) {
                const int order = values_[a].key.compare(values_[b].key);
                return order != 0 ? order < 0 : a < b;
              });
    for (std::size_t i = 1; i < content_.values_by_key.size(); ++i) {
      const GgufValue& v = values_[content_.values_by_key[i]];
      if (v.key == values_[content_.values_by_key[i - 1]].key)
        in_.fail(ErrorCode::format, offset_of(v.key.data()), "duplicate key {}", quote(v.key));
    }
  }

  const GgufValue* find(std::string_view key) const {
    for (const GgufValue& v : values_)
      if (v.key == key) return &v;
    return nullptr;
  }

  void special_keys() {
    if (const GgufValue* v = find("general.alignment")) {
      if (v->type != GgufType::u32)
        in_.fail(ErrorCode::format, offset_of(v->bytes.data()),
                 "key 'general.alignment': expected type u32, found {}", name(v->type));
      std::memcpy(&content_.alignment, v->bytes.data(), sizeof content_.alignment);
      // The format asks for a multiple of 8; ggml asks for a power of two as well, which files like
      // 24 break.
      if (content_.alignment == 0 || content_.alignment % 8 != 0)
        in_.fail(ErrorCode::format, offset_of(v->bytes.data()),
                 "key 'general.alignment': expected a multiple of 8 above 0, found {}",
                 content_.alignment);
    }
    if (const GgufValue* v = find("split.count")) {
      if (v->type != GgufType::u16)
        in_.fail(ErrorCode::format, offset_of(v->bytes.data()),
                 "key 'split.count': expected type u16, found {}", name(v->type));
      std::uint16_t parts = 0;
      std::memcpy(&parts, v->bytes.data(), sizeof parts);
      if (parts > 1)
        in_.fail(ErrorCode::unsupported, offset_of(v->bytes.data()),
                 "key 'split.count': the model is split into {} files, which is not supported; "
                 "join them into one",
                 parts);
    }
  }

  void tensor_info() {
    in_.set_owner("", "");
    Place place{in_.offset(), 0, 0};
    GgufTensor t{};
    const std::string_view tensor_name = in_.string("tensor name", kMaxTensorNameBytes);
    in_.set_owner("tensor", tensor_name);
    const std::size_t dims_at = in_.offset();
    const auto dims = in_.number<std::uint32_t>("number of dimensions");
    if (dims > kMaxDims)
      in_.fail(ErrorCode::format, dims_at, "number of dimensions: expected at most {}, found {}",
               kMaxDims, dims);
    std::array<std::uint64_t, kMaxDims> extents{};
    std::int64_t elements = 1;
    bool empty = false;
    for (std::uint32_t i = 0; i < dims; ++i) {
      const std::size_t at = in_.offset();
      extents[i] = in_.number<std::uint64_t>("dimension");
      const auto extent = checked_cast<std::int64_t>(extents[i]);
      // An empty tensor is fine, but the other extents must make sense for whoever computes
      // strides.
      const auto product =
          extent ? checked_mul(elements, std::max<std::int64_t>(*extent, 1)) : std::nullopt;
      if (!product)
        in_.fail(ErrorCode::format, at,
                 "dimension {}: {}: the number of elements does not fit in 63 bits", i, extents[i]);
      elements = *product;
      empty = empty || *extent == 0;
    }
    t.dtype = tensor_type();
    place.bytes = data_bytes(t.dtype, dims == 0 ? 1 : extents[0], elements, dims_at);
    if (empty) place.bytes = 0;
    const std::size_t at = in_.offset();
    place.offset = in_.number<std::uint64_t>("offset");
    if (place.offset % content_.alignment != 0)
      in_.fail(ErrorCode::format, at, "offset: expected a multiple of the alignment {}, found {}",
               content_.alignment, place.offset);
    t.name = tensor_name;
    t.shape.assign(std::reverse_iterator(extents.begin() + dims), extents.rend());
    tensors_.push_back(std::move(t));
    places_.push_back(place);
  }

  DType tensor_type() {
    const std::size_t at = in_.offset();
    const auto id = in_.number<std::uint32_t>("type");
    if (const auto dtype = dtype_from_gguf(id)) return *dtype;
    const std::string_view known = gguf_type_name(id);
    if (known.empty()) in_.fail(ErrorCode::format, at, "type: no type has the number {}", id);
    in_.fail(ErrorCode::unsupported, at, "type: block type {} ({}) is not supported", known, id);
  }

  std::uint64_t data_bytes(DType dtype, std::uint64_t row, std::int64_t elements,
                           std::size_t at) const {
    const DTypeInfo& t = info(dtype);
    if (row % static_cast<std::uint64_t>(t.block_elements) != 0)
      in_.fail(ErrorCode::format, at, "rows of {} elements: {} needs a multiple of {}", row, t.name,
               t.block_elements);
    const auto bytes = checked_mul<std::int64_t>(elements / t.block_elements, t.block_bytes);
    if (!bytes)
      in_.fail(ErrorCode::format, at,
               "{} elements of {}: the size in bytes does not fit in 63 bits", elements, t.name);
    return static_cast<std::uint64_t>(*bytes);
  }

  void index_tensors() {
    content_.tensors_by_name.resize(tensors_.size());
    std::iota(content_.tensors_by_name.begin(), content_.tensors_by_name.end(), 0u);
    std::sort(content_.tensors_by_name.begin(), content_.tensors_by_name.end(),
              [&](std::uint32_t a, std::uint32_t b) {
                const int order = tensors_[a].name.compare(tensors_[b].name);
                return order != 0 ? order < 0 : a < b;
              });
    for (std::size_t i = 1; i < content_.tensors_by_name.size(); ++i) {
      const std::uint32_t second = content_.tensors_by_name[i];
      if (tensors_[second].name == tensors_[content_.tensors_by_name[i - 1]].name)
        in_.fail(ErrorCode::format, places_[second].info, "duplicate tensor name {}",
                 quote(tensors_[second].name));
    }
  }

  // Points each tensor at its bytes; all ranges lie inside the file and none overlap.
  void place_tensors() {
    if (tensors_.empty()) return;
    const auto start = checked_round_up<std::uint64_t>(in_.offset(), content_.alignment);
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      Place& place = places_[i];
      const auto begin = start ? checked_add(*start, place.offset) : std::nullopt;
      const auto end = begin ? checked_add(*begin, place.bytes) : std::nullopt;
      if (!end || *end > bytes_.size())
        in_.fail(ErrorCode::format, place.info,
                 "tensor {}: {} bytes at data offset {} end past the file: expected at least {} "
                 "bytes, found {}",
                 quote(tensors_[i].name), place.bytes, place.offset,
                 end ? fmt::format("{}", *end) : "2^64", bytes_.size());
      tensors_[i].data =
          bytes_.subspan(static_cast<std::size_t>(*begin), static_cast<std::size_t>(place.bytes));
    }
    std::vector<std::uint32_t> order;
    order.reserve(tensors_.size());
    for (std::uint32_t i = 0; i < tensors_.size(); ++i)
      if (places_[i].bytes != 0) order.push_back(i);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return places_[a].offset < places_[b].offset;
    });
    for (std::size_t i = 1; i < order.size(); ++i) {
      const Place &first = places_[order[i - 1]], &second = places_[order[i]];
      if (first.offset + first.bytes > second.offset)
        in_.fail(ErrorCode::format, second.info,
                 "tensor {}: its {} bytes at data offset {} overlap those of tensor {} "
                 "({} bytes at {})",
                 quote(tensors_[order[i]].name), second.bytes, second.offset,
                 quote(tensors_[order[i - 1]].name), first.bytes, first.offset);
    }
  }

  ByteReader in_;
  std::span<const std::byte> bytes_;
  GgufContent content_;
  std::vector<GgufValue>& values_ = content_.values;
  std::vector<GgufTensor>& tensors_ = content_.tensors;
  std::uint64_t tensor_count_ = 0, key_count_ = 0;
  std::vector<Place> places_;
};

}  // namespace

std::size_t gguf_type_bytes(GgufType type) {
  constexpr std::uint8_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<std::size_t>(type)];
}

std::string_view name(GgufType type) {
  constexpr std::string_view kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                         "bool", "string", "array", "u64", "i64", "f64"};
  return kNames[static_cast<std::size_t>(type)];
}

GgufFile::GgufFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  static_cast<GgufContent&>(*impl_) = Parser(impl_->bytes, impl_->path).parse();
}

GgufFile::GgufFile(const std::filesystem::path& path)
    : GgufFile([&] {
        auto impl = std::make_unique<Impl>();
        impl->mapped.emplace(path);
        impl->path = impl->mapped->path();
        impl->bytes = impl->mapped->bytes();
        return impl;
      }()) {}

GgufFile GgufFile::from_bytes(std::span<const std::byte> bytes, std::string name) {
  auto impl = std::make_unique<Impl>();
  impl->path = std::move(name);
  impl->bytes = bytes;
  return GgufFile(std::move(impl));
}

GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;
GgufFile::~GgufFile() = default;

const std::string& GgufFile::path() const { return impl_->path; }
std::uint32_t GgufFile::version() const { return impl_->version; }
std::uint32_t GgufFile::alignment() const { return impl_->alignment; }
std::span<const GgufTensor> GgufFile::tensors() const { return impl_->tensors; }

const MappedFile& GgufFile::file() const {
  RLX_CHECK(impl_->mapped.has_value(), "a GgufFile made from bytes has no file");
  return *impl_->mapped;
}

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto& order = impl_->tensors_by_name;
  const auto at = std::lower_bound(
      order.begin(), order.end(), name,
      [&](std::uint32_t i, std::string_view wanted) { return impl_->tensors[i].name < wanted; });
  return at != order.end() && impl_->tensors[*at].name == name ? &impl_->tensors[*at] : nullptr;
}

}  // namespace rlx
