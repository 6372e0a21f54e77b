#include "runtime/verify_tensors.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "tensor/quant/codec.h"

namespace rlx {

const SafetensorsTensor& ReferenceTensors::find(const std::string& name, std::size_t rank) const {
  const SafetensorsTensor* t = file_.find(name);
  if (t == nullptr)
    fail(ErrorCode::format, "{}: expected a tensor \"{}\", found none", path(), name);
  if (t->shape.size() != rank)
    fail(ErrorCode::format, "{}: {}: expected rank {}, found {}", path(), name, rank,
         t->shape.size());
  return *t;
}

std::vector<float> ReferenceTensors::floats(const std::string& name, std::size_t rank) const {
  const SafetensorsTensor& t = find(name, rank);
  if (!is_float(t.dtype))
    fail(ErrorCode::format, "{}: {}: expected floats, found {}", path(), name, rlx::name(t.dtype));
  const std::size_t n = t.data.size() / static_cast<std::size_t>(info(t.dtype).block_bytes);
  std::vector<float> out(n);
  decoder(t.dtype)(t.data.data(), out.data(), static_cast<std::int64_t>(n));
  return out;
}

std::vector<std::int32_t> ReferenceTensors::ids(const std::string& name, std::size_t rank) const {
  const SafetensorsTensor& t = find(name, rank);
  if (t.dtype != DType::i32 && t.dtype != DType::i64)
    fail(ErrorCode::format, "{}: {}: expected I32 or I64, found {}", path(), name,
         rlx::name(t.dtype));
  const std::size_t size = static_cast<std::size_t>(info(t.dtype).block_bytes);
  std::vector<std::int32_t> out;
  out.reserve(t.data.size() / size);
  for (std::size_t at = 0; at + size <= t.data.size(); at += size) {
    std::int64_t id = 0;  // little-endian, as the machines that this runs on
    std::memcpy(&id, t.data.data() + at, size);
    if (id < 0 || id > INT32_MAX)
      fail(ErrorCode::format, "{}: {}: a token id of {}", path(), name, id);
    out.push_back(static_cast<std::int32_t>(id));
  }
  return out;
}

std::vector<std::string> ReferenceTensors::stems(std::string_view suffix) const {
  std::vector<std::string> out;
  for (const SafetensorsTensor& t : file_.tensors())
    if (t.name.size() > suffix.size() && std::string_view(t.name).ends_with(suffix))
      out.push_back(t.name.substr(0, t.name.size() - suffix.size()));
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace rlx
