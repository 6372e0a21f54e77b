// A constant of a graph: its data, shared by all graphs, programs and executables that hold it.
#pragma once

#include <memory>

#include "base/hash.h"
#include "tensor/tensor.h"

namespace rlx {

struct ConstantData {
  Tensor value;
  Digest digest;  ///< of dtype, dims and bytes: equal digests mean equal constants
};

/// Copies the bytes, which may be borrowed. Error(invalid_argument): an empty Tensor (no data).
std::shared_ptr<const ConstantData> make_constant(const Tensor& value);

}  // namespace rlx
