// An owning or borrowing typed view of plain data with concrete sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/shape.h"

namespace rlx {

class Tensor {
 public:
  Tensor() = default;
  /// Zeros. Errors: shape (a negative size), limit (the byte count does not fit), memory.
  static Tensor zeros(std::vector<std::int64_t> dims, DType dtype = DType::f32);
  /// The same without a value, for who writes all of it.
  static Tensor unset(std::vector<std::int64_t> dims, DType dtype = DType::f32);
  static Tensor from(std::vector<std::int64_t> dims,
                     std::span<const float> values);  ///< f32, copied
  static Tensor from(std::vector<std::int64_t> dims,
                     std::span<const std::int32_t> values);  ///< i32, copied
  /// A view of somebody else's bytes, which must outlive it. Error(shape) when the size of `bytes`
  /// does not fit the dims.
  static Tensor borrow(std::vector<std::int64_t> dims, DType dtype,
                       std::span<const std::byte> bytes);

  const std::vector<std::int64_t>& dims() const { return dims_; }
  DType dtype() const { return dtype_; }
  std::int64_t elements() const;
  std::int64_t byte_size() const;
  Shape shape() const;
  std::string text() const { return shape().text(); }

  const std::byte* data() const { return data_; }
  std::byte* mutable_data();  ///< RLX_CHECK: owned
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data_), static_cast<std::size_t>(byte_size()) / sizeof(T)};
  }
  template <typename T>
  std::span<T> mutable_as() {
    return {reinterpret_cast<T*>(mutable_data()),
            static_cast<std::size_t>(byte_size()) / sizeof(T)};
  }

  /// The values as float32 (block formats decoded).
  std::vector<float> to_floats() const;

 private:
  std::vector<std::int64_t> dims_;
  DType dtype_ = DType::f32;
  std::shared_ptr<std::byte[]> owned_;
  const std::byte* data_ = nullptr;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

}  // namespace rlx
