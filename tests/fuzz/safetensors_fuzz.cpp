// Any bytes as a safetensors file: it is refused with a proper message, or everything that the API
// gives can be read, and what was read survives being written and read again.
#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"
#include "tensor/quant/codec.h"

namespace {

using rlx::SafetensorsFile, rlx::SafetensorsTensor;

void decode_tensors(const SafetensorsFile& file) {
  for (const SafetensorsTensor& t : file.tensors()) {
    RLX_CHECK(file.find(t.name) == &t);
    const auto n = std::min<std::int64_t>(
        static_cast<std::int64_t>(t.data.size()) / rlx::info(t.dtype).block_bytes, 4096);
    std::vector<float> values(static_cast<std::size_t>(n));
    rlx::decoder(t.dtype)(t.data.data(), values.data(), n);
  }
}

void write_and_read_again(const SafetensorsFile& file) {
  rlx::SafetensorsWriter writer;
  for (const auto& [key, value] : file.metadata()) writer.set_metadata(key, value);
  for (const SafetensorsTensor& t : file.tensors()) writer.add(t.name, t.dtype, t.shape, t.data);
  const std::vector<std::byte> bytes = writer.bytes();
  const SafetensorsFile again = SafetensorsFile::from_bytes(bytes, "again");
  RLX_CHECK(again.metadata() == file.metadata() && again.tensors().size() == file.tensors().size());
  for (const SafetensorsTensor& t : file.tensors()) {
    const SafetensorsTensor* other = again.find(t.name);
    RLX_CHECK(other != nullptr && other->dtype == t.dtype && other->shape == t.shape);
    RLX_CHECK(std::equal(t.data.begin(), t.data.end(), other->data.begin(), other->data.end()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const SafetensorsFile file =
        SafetensorsFile::from_bytes(std::as_bytes(std::span(data, size)), "fuzz");
    decode_tensors(file);
    write_and_read_again(file);
  } catch (const rlx::Error& e) {
    RLX_CHECK(std::string_view(e.what()).starts_with("fuzz: offset "), e.what());
  }
  return 0;
}
