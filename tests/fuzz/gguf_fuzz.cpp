// Any bytes as a GGUF file: it is refused with a proper message, or everything that the API gives
// can be read, and what was read survives being written and read again.
#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "tensor/quant/codec.h"

namespace {

using rlx::GgufFile, rlx::GgufTensor, rlx::GgufType;

template <typename F>
void may_refuse(F f) {
  try {
    f();
  } catch (const rlx::Error&) {
    // The wrong type for this getter.
  }
}

void read_metadata(const GgufFile& file) {
  for (const auto& e : file.metadata()) {
    RLX_CHECK(file.has(e.key) && file.get_raw(e.key).has_value());
    may_refuse([&] { file.get_int(e.key); });
    may_refuse([&] { file.get_float(e.key); });
    may_refuse([&] { file.get_bool(e.key); });
    may_refuse([&] { RLX_CHECK(file.get_string(e.key)->size() == file.get_raw(e.key)->size()); });
    may_refuse([&] { file.get_strings(e.key); });
    may_refuse([&] { file.get_floats(e.key); });
    may_refuse([&] { file.get_ints(e.key); });
  }
}

void decode_tensors(const GgufFile& file) {
  for (const GgufTensor& t : file.tensors()) {
    RLX_CHECK(file.find(t.name) == &t);
    const auto& type = rlx::info(t.dtype);
    const auto blocks = static_cast<std::int64_t>(t.data.size()) / type.block_bytes;
    const std::int64_t n = std::min<std::int64_t>(blocks, 64) * type.block_elements;
    std::vector<float> values(static_cast<std::size_t>(n));
    rlx::decoder(t.dtype)(t.data.data(), values.data(), n);
  }
}

// The value with what precedes it in a file: the length of a string, the head of an array (whose
// length only shows in text).
std::vector<std::byte> encoded(const GgufFile& file, const GgufFile::Entry& e) {
  std::vector<std::byte> out;
  const auto put = [&](auto number) {
    const auto* p = reinterpret_cast<const std::byte*>(&number);
    out.insert(out.end(), p, p + sizeof number);
  };
  const auto raw = *file.get_raw(e.key);
  if (e.type == GgufType::string) put(static_cast<std::uint64_t>(raw.size()));
  if (e.type == GgufType::array) {
    put(static_cast<std::uint32_t>(e.element));
    put(static_cast<std::uint64_t>(std::stoull(e.text.substr(1))));
  }
  out.insert(out.end(), raw.begin(), raw.end());
  return out;
}

void write_and_read_again(const GgufFile& file) {
  if (!std::has_single_bit(file.alignment()) || file.alignment() > 4096) return;
  rlx::GgufWriter writer(file.version(), file.alignment());
  for (const auto& e : file.metadata())
    if (e.key != "general.alignment") writer.put_raw(e.key, e.type, encoded(file, e));
  for (const GgufTensor& t : file.tensors()) writer.add_tensor(t.name, t.dtype, t.shape, t.data);
  const std::vector<std::byte> bytes = writer.bytes();
  const GgufFile again = GgufFile::from_bytes(bytes, "again");
  for (const auto& e : file.metadata()) {
    if (e.key == "general.alignment") continue;
    const auto a = *file.get_raw(e.key), b = *again.get_raw(e.key);
    RLX_CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end()));
  }
  RLX_CHECK(file.tensors().size() == again.tensors().size());
  for (const GgufTensor& t : file.tensors()) {
    const GgufTensor* other = again.find(t.name);
    RLX_CHECK(other != nullptr && other->dtype == t.dtype && other->shape == t.shape);
    RLX_CHECK(std::equal(t.data.begin(), t.data.end(), other->data.begin(), other->data.end()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const GgufFile file = GgufFile::from_bytes(std::as_bytes(std::span(data, size)), "fuzz");
    read_metadata(file);
    decode_tensors(file);
    write_and_read_again(file);
  } catch (const rlx::Error& e) {
    RLX_CHECK(std::string_view(e.what()).starts_with("fuzz: offset "), e.what());
  }
  return 0;
}
