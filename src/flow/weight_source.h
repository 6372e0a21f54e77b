// Where the tensors of a checkpoint come from: safetensors, GGUF, or memory. Data is referenced,
// never copied.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "tensor/dtype.h"

namespace rlx {

/// One stored tensor. `data` stays valid while the source lives; `file` is its mapping (nullptr: in
/// memory), so that pages can be dropped after packing.
struct WeightRef {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;  ///< row-major, [out, in] for products
  std::span<const std::byte> data;
  const MappedFile* file = nullptr;
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// nullptr when there is none.
  virtual const WeightRef* find(std::string_view name) const = 0;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  virtual std::vector<std::string> names() const = 0;
  /// What messages call the source: the path.
  virtual const std::string& origin() const = 0;
};

}  // namespace rlx
