#include "formats/safetensors.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/checked.h"
#include "formats/json_cursor.h"

namespace rlx {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // as the reference reader
// Our own limits, so that a hostile header cannot make us allocate many times its size.
constexpr std::size_t kMaxTensorDims = 64;
constexpr std::size_t kMaxMetadataKeys = 65'536;

struct TypeName {
  std::string_view name;
  std::optional<DType> dtype;  // nothing: known but not supported
};
constexpr TypeName kTypes[] = {
    {"F64", DType::f64},           {"F32", DType::f32},
    {"F16", DType::f16},           {"BF16", DType::bf16},
    {"I64", DType::i64},           {"I32", DType::i32},
    {"I16", DType::i16},           {"I8", DType::i8},
    {"U64", DType::u64},           {"U32", DType::u32},
    {"U16", DType::u16},           {"U8", DType::u8},
    {"BOOL", DType::boolean},      {"F8_E4M3", std::nullopt},
    {"F8_E5M2", std::nullopt},     {"F8_E8M0", std::nullopt},
    {"F8_E4M3FNUZ", std::nullopt}, {"F8_E5M2FNUZ", std::nullopt},
    {"F6_E2M3", std::nullopt},     {"F6_E3M2", std::nullopt},
    {"F4", std::nullopt},          {"C64", std::nullopt},
};

// A tensor's record in the header; offsets count from the start of the data.
struct Record {
  std::string name;
  std::uint64_t at = 0;  // offset of the name in the file
  std::optional<DType> dtype;
  std::optional<std::vector<std::int64_t>> shape;
  std::optional<std::pair<std::uint64_t, std::uint64_t>> range;
};

class HeaderParser {
 public:
  HeaderParser(std::span<const std::byte> bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  std::vector<SafetensorsTensor> tensors;
  std::vector<std::uint32_t> by_name;
  std::map<std::string, std::string> metadata;

  void parse() {
    ByteReader in(bytes_, file_);
    const auto header_bytes = in.number<std::uint64_t>("header length");
    if (header_bytes > kMaxHeaderBytes)
      in.fail(ErrorCode::format, 0, "header length: expected at most {} bytes, found {}",
              kMaxHeaderBytes, header_bytes);
    if (header_bytes > in.left())
      in.fail(ErrorCode::format, 0,
              "header length {}: expected at least {} bytes in the file, found {}", header_bytes,
              header_bytes + 8, bytes_.size());
    const auto header = in.take(header_bytes, "header");
    data_ = bytes_.subspan(in.offset());
    JsonCursor json({reinterpret_cast<const char*>(header.data()), header.size()}, 8, file_);
    json_ = &json;
    json.object("'{' at the start of the header", [&](std::string key, std::uint64_t at) {
      if (key == "__metadata__")
        read_metadata(at);
      else
        read_tensor(std::move(key), at);
    });
    json.end_of_text();
    check_names();
    place_tensors();
    index_names();
  }

 private:
  void read_metadata(std::uint64_t at) {
    if (std::exchange(has_metadata_, true)) json_->fail(at, "duplicate key '__metadata__'");
    json_->object("an object as '__metadata__'", [&](std::string key, std::uint64_t key_at) {
      std::string value = json_->string("a string as value of a '__metadata__' key");
      if (metadata.size() >= kMaxMetadataKeys)
        json_->fail(key_at, "'__metadata__': more than {} keys", kMaxMetadataKeys);
      if (const auto [it, fresh] = metadata.emplace(std::move(key), std::move(value)); !fresh)
        json_->fail(key_at, "'__metadata__': duplicate key {}", quote(it->first));
    });
  }

  void read_tensor(std::string tensor_name, std::uint64_t at) {
    Record r;
    r.name = std::move(tensor_name);
    r.at = at;
    json_->object(
        "an object that describes a tensor", [&](const std::string& field, std::uint64_t field_at) {
          const auto once = [&](bool seen) {
            if (seen)
              json_->fail(field_at, "tensor {}: duplicate field {}", quote(r.name), quote(field));
          };
          if (field == "dtype") {
            once(r.dtype.has_value());
            r.dtype = read_dtype(r);
          } else if (field == "shape") {
            once(r.shape.has_value());
            r.shape = read_shape(r);
          } else if (field == "data_offsets") {
            once(r.range.has_value());
            r.range = read_range(r);
          } else {
            json_->skip_value();  // the reference reader ignores fields that it does not know
          }
        });
    if (!r.dtype || !r.shape || !r.range)
      json_->fail(at, "tensor {}: {} is missing", quote(r.name),
                  !r.dtype   ? "dtype"
                  : !r.shape ? "shape"
                             : "data_offsets");
    records_.push_back(std::move(r));
  }

  DType read_dtype(const Record& r) {
    const std::uint64_t at = json_->next_offset();
    const std::string text = json_->string("a string as dtype");
    for (const TypeName& row : kTypes) {
      if (row.name != text) continue;
      if (row.dtype) return *row.dtype;
      fail_at(ErrorCode::unsupported, file_, at, "tensor {}: element type {} is not supported",
              quote(r.name), text);
    }
    json_->fail(at, "tensor {}: unknown dtype {}", quote(r.name), quote(text));
  }

  std::vector<std::int64_t> read_shape(const Record& r) {
    std::vector<std::int64_t> shape;
    json_->array("an array as shape", [&] {
      const std::uint64_t at = json_->next_offset();
      const auto dim = checked_cast<std::int64_t>(json_->unsigned_integer("an integer of a shape"));
      if (!dim) json_->fail(at, "tensor {}: a dimension does not fit in 63 bits", quote(r.name));
      if (shape.size() == kMaxTensorDims)
        json_->fail(at, "tensor {}: more than {} dimensions", quote(r.name), kMaxTensorDims);
      shape.push_back(*dim);
    });
    return shape;
  }

  std::pair<std::uint64_t, std::uint64_t> read_range(const Record& r) {
    const std::uint64_t at = json_->next_offset();
    std::uint64_t ends[2] = {0, 0};
    std::size_t n = 0;
    json_->array("an array as data_offsets", [&] {
      const std::uint64_t value = json_->unsigned_integer("an integer of data_offsets");
      if (n < 2) ends[n] = value;
      ++n;
    });
    if (n != 2)
      json_->fail(at, "tensor {}: data_offsets: expected 2 numbers, found {}", quote(r.name), n);
    if (ends[0] > ends[1])
      json_->fail(at, "tensor {}: data_offsets: the begin {} is behind the end {}", quote(r.name),
                  ends[0], ends[1]);
    return {ends[0], ends[1]};
  }

  // Bytes that the shape and the type ask for.
  std::uint64_t needed_bytes(const Record& r) const {
    std::optional<std::int64_t> product = info(*r.dtype).block_bytes;
    bool empty = false;
    for (const std::int64_t dim : *r.shape) {
      // An empty tensor is fine, but the other extents must make sense for whoever computes
      // strides.
      if (product) product = checked_mul(*product, std::max<std::int64_t>(dim, 1));
      empty = empty || dim == 0;
    }
    if (!product)
      json_->fail(r.at, "tensor {}: the size of its shape does not fit in 63 bits", quote(r.name));
    return empty ? 0 : static_cast<std::uint64_t>(*product);
  }

  // Before any range is looked at, since equal names also give ranges that overlap.
  void check_names() const {
    std::vector<std::uint32_t> order(records_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      const int c = records_[a].name.compare(records_[b].name);
      return c != 0 ? c < 0 : a < b;
    });
    for (std::size_t i = 1; i < order.size(); ++i)
      if (records_[order[i]].name == records_[order[i - 1]].name)
        json_->fail(records_[order[i]].at, "duplicate tensor name {}",
                    quote(records_[order[i]].name));
  }

  // The ranges, in order, cover the data from its first byte to its last, without holes or
  // overlaps.
  void place_tensors() {
    std::sort(records_.begin(), records_.end(), [](const Record& a, const Record& b) {
      return *a.range != *b.range ? *a.range < *b.range : a.at < b.at;
    });
    tensors.reserve(records_.size());
    std::uint64_t covered = 0;
    for (Record& r : records_) {
      const auto [begin, end] = *r.range;
      const std::uint64_t needed = needed_bytes(r);
      if (end - begin != needed)
        json_->fail(r.at, "tensor {}: shape and dtype need {} bytes, data_offsets [{}, {}] hold {}",
                    quote(r.name), needed, begin, end, end - begin);
      if (begin != covered)
        json_->fail(r.at,
                    "tensor {}: data_offsets [{}, {}] {} the data before them, which ends at {}",
                    quote(r.name), begin, end, begin < covered ? "overlap" : "leave a hole behind",
                    covered);
      covered = end;
      if (end > data_.size()) too_short(r);
      const auto range =
          data_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(needed));
      tensors.push_back({std::move(r.name), *r.dtype, std::move(*r.shape), range});
    }
    if (covered != data_.size())
      json_->fail(bytes_.size() - data_.size() + covered,
                  "the tensors end here, but bytes follow: expected {} bytes in the file, found {}",
                  bytes_.size() - data_.size() + covered, bytes_.size());
  }

  [[noreturn]] void too_short(const Record& r) const {
    const std::uint64_t head = bytes_.size() - data_.size();
    const auto last = checked_add(head, records_.back().range->second);
    json_->fail(r.at,
                "tensor {}: its data end past the file: expected {} bytes in the file, found {}",
                quote(r.name), last ? fmt::format("{}", *last) : "above 2^64", bytes_.size());
  }

  void index_names() {
    by_name.resize(tensors.size());
    std::iota(by_name.begin(), by_name.end(), 0u);
    std::sort(by_name.begin(), by_name.end(),
              [&](std::uint32_t a, std::uint32_t b) { return tensors[a].name < tensors[b].name; });
  }

  std::span<const std::byte> bytes_, data_;
  std::string_view file_;
  JsonCursor* json_ = nullptr;
  bool has_metadata_ = false;
  std::vector<Record> records_;
};

}  // namespace

struct SafetensorsFile::Impl {
  std::optional<MappedFile> mapped;
  std::string path;
  std::span<const std::byte> bytes;
  std::vector<SafetensorsTensor> tensors;
  std::vector<std::uint32_t> by_name;  // positions sorted by name
  std::map<std::string, std::string> metadata;
};

SafetensorsFile::SafetensorsFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  HeaderParser parser(impl_->bytes, impl_->path);
  parser.parse();
  impl_->tensors = std::move(parser.tensors);
  impl_->by_name = std::move(parser.by_name);
  impl_->metadata = std::move(parser.metadata);
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : SafetensorsFile([&] {
        auto impl = std::make_unique<Impl>();
        impl->mapped.emplace(path);
        impl->path = impl->mapped->path();
        impl->bytes = impl->mapped->bytes();
        return impl;
      }()) {}

SafetensorsFile SafetensorsFile::from_bytes(std::span<const std::byte> bytes, std::string name) {
  auto impl = std::make_unique<Impl>();
  impl->path = std::move(name);
  impl->bytes = bytes;
  return SafetensorsFile(std::move(impl));
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;
SafetensorsFile::~SafetensorsFile() = default;

const std::string& SafetensorsFile::path() const { return impl_->path; }
std::span<const SafetensorsTensor> SafetensorsFile::tensors() const { return impl_->tensors; }
const std::map<std::string, std::string>& SafetensorsFile::metadata() const {
  return impl_->metadata;
}

const MappedFile& SafetensorsFile::file() const {
  RLX_CHECK(impl_->mapped.has_value(), "a SafetensorsFile made from bytes has no file");
  return *impl_->mapped;
}

const SafetensorsTensor* SafetensorsFile::find(std::string_view name) const {
  const auto& order = impl_->by_name;
  const auto at = std::lower_bound(
      order.begin(), order.end(), name,
      [&](std::uint32_t i, std::string_view wanted) { return impl_->tensors[i].name < wanted; });
  return at != order.end() && impl_->tensors[*at].name == name ? &impl_->tensors[*at] : nullptr;
}

}  // namespace rlx
