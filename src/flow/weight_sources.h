// The weight sources: a GGUF file, a safetensors checkpoint (one file or shards), and tensors in
// memory.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "flow/weight_source.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"

namespace rlx {

/// Tensors by name; the base of all sources. Names are unique: adding one twice is Error(format)
/// that names both places.
class WeightMap : public WeightSource {
 public:
  explicit WeightMap(std::string origin) : origin_(std::move(origin)) {}

  /// Adds a tensor whose bytes the caller keeps alive. Error(shape): the byte count does not fit
  /// dtype and shape.
  void add(WeightRef tensor);
  /// Adds float32 values, which the map keeps.
  void add(std::string name, std::vector<std::int64_t> shape, std::vector<float> values);

  const WeightRef* find(std::string_view name) const override;
  std::vector<std::string> names() const override;  ///< sorted
  const std::string& origin() const override { return origin_; }

 private:
  std::string origin_;
  std::map<std::string, WeightRef, std::less<>> tensors_;
  std::vector<std::shared_ptr<const std::vector<float>>> owned_;
};

/// Whether a file was opened from the disk or made from bytes in memory (then WeightRef::file is
/// nullptr).
enum class Storage : std::uint8_t { mapped, memory };

/// The tensors of a GGUF file, which the source keeps open.
std::shared_ptr<const WeightSource> gguf_weights(std::shared_ptr<const GgufFile> file,
                                                 Storage storage = Storage::mapped);

/// The tensors of all shards, which the source keeps open; `origin` is what messages call the
/// checkpoint.
std::shared_ptr<const WeightSource> safetensors_weights(std::vector<SafetensorsFile> shards,
                                                        std::string origin,
                                                        Storage storage = Storage::mapped);

}  // namespace rlx
