#include "flow/weight_sources.h"

#include <utility>

#include "base/checked.h"
#include "base/error.h"

namespace rlx {
namespace {

std::int64_t byte_count(const WeightRef& t) {
  std::int64_t elements = 1;
  for (const std::int64_t d : t.shape) {
    if (d < 0) fail(ErrorCode::shape, "{}: a size of {}", t.name, d);
    elements = require(checked_mul(elements, d), "elements of a tensor");
  }
  const DTypeInfo& type = info(t.dtype);
  const std::int64_t row = t.shape.empty() ? 1 : t.shape.back();
  if (row % type.block_elements != 0)
    fail(ErrorCode::shape, "{}: {} needs rows of a multiple of {} values, found {}", t.name,
         type.name, type.block_elements, row);
  return require(checked_mul<std::int64_t>(elements / type.block_elements, type.block_bytes),
                 "bytes of a tensor");
}

class GgufWeights final : public WeightMap {
 public:
  explicit GgufWeights(std::shared_ptr<const GgufFile> file)
      : WeightMap(file->path()), file_(std::move(file)) {}

 private:
  std::shared_ptr<const GgufFile> file_;
};

class SafetensorsWeights final : public WeightMap {
 public:
  SafetensorsWeights(std::vector<SafetensorsFile> shards, std::string origin)
      : WeightMap(std::move(origin)), shards_(std::move(shards)) {}
  const std::vector<SafetensorsFile>& shards() const { return shards_; }

 private:
  std::vector<SafetensorsFile> shards_;
};

}  // namespace

void WeightMap::add(WeightRef tensor) {
  const std::int64_t bytes = byte_count(tensor);
  if (!std::in_range<std::int64_t>(tensor.data.size()) ||
      static_cast<std::int64_t>(tensor.data.size()) != bytes)
    fail(ErrorCode::shape, "{}: {}: expected {} bytes, found {}", origin_, tensor.name, bytes,
         tensor.data.size());
  std::string name = tensor.name;
  if (!tensors_.emplace(name, std::move(tensor)).second)
    fail(ErrorCode::format, "{}: the tensor \"{}\" occurs twice", origin_, name);
}

void WeightMap::add(std::string name, std::vector<std::int64_t> shape, std::vector<float> values) {
  owned_.push_back(std::make_shared<const std::vector<float>>(std::move(values)));
  const std::span<const float> data(*owned_.back());
  add(WeightRef{std::move(name), DType::f32, std::move(shape), std::as_bytes(data), nullptr});
}

const WeightRef* WeightMap::find(std::string_view name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

std::vector<std::string> WeightMap::names() const {
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

std::shared_ptr<const WeightSource> gguf_weights(std::shared_ptr<const GgufFile> file,
                                                 Storage storage) {
  const MappedFile* mapping = storage == Storage::mapped ? &file->file() : nullptr;
  auto source = std::make_shared<GgufWeights>(file);
  for (const GgufTensor& t : file->tensors())
    source->add(WeightRef{t.name, t.dtype, t.shape, t.data, mapping});
  return source;
}

std::shared_ptr<const WeightSource> safetensors_weights(std::vector<SafetensorsFile> shards,
                                                        std::string origin, Storage storage) {
  auto source = std::make_shared<SafetensorsWeights>(std::move(shards), std::move(origin));
  for (const SafetensorsFile& shard : source->shards())
    for (const SafetensorsTensor& t : shard.tensors())
      source->add(WeightRef{t.name, t.dtype, t.shape, t.data,
                            storage == Storage::mapped ? &shard.file() : nullptr});
  return source;
}

}  // namespace rlx
