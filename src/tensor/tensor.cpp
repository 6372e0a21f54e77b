#include "tensor/tensor.h"

#include <cstring>
#include <new>

#include "base/checked.h"
#include "base/error.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

constexpr std::align_val_t kAlignment{64};  // of a cache line, which kernels may ask for

std::string dims_text(const std::vector<std::int64_t>& dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

std::int64_t count_elements(const std::vector<std::int64_t>& dims) {
  if (dims.size() > static_cast<std::size_t>(kMaxRank))
    fail(ErrorCode::shape, "tensor {}: expected at most {} dims, found {}", dims_text(dims),
         kMaxRank, dims.size());
  std::int64_t n = 1;
  bool empty = false;  // a zero anywhere makes the count zero, however large the others are
  for (std::int64_t d : dims) {
    if (d < 0) fail(ErrorCode::shape, "tensor {}: expected no negative size", dims_text(dims));
    empty = empty || d == 0;
  }
  if (empty) return 0;
  for (std::int64_t d : dims) n = require(checked_mul(n, d), "elements of a tensor");
  return n;
}

std::int64_t count_bytes(const std::vector<std::int64_t>& dims, DType dtype) {
  const DTypeInfo& type = info(dtype);
  const std::int64_t n = count_elements(dims), row = dims.empty() ? 1 : dims.back();
  if (row % type.block_elements != 0)
    fail(ErrorCode::shape, "tensor {}: rows of {} need a multiple of {} values, found {}",
         dims_text(dims), type.name, type.block_elements, row);
  return require(checked_mul<std::int64_t>(n / type.block_elements, type.block_bytes),
                 "bytes of a tensor");
}

std::shared_ptr<std::byte[]> allocate(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  try {
    auto* data =
        static_cast<std::byte*>(::operator new(std::max<std::size_t>(size, 1), kAlignment));
    return {data, [](std::byte* p) { ::operator delete(p, kAlignment); }};
  } catch (const std::bad_alloc&) {
    fail(ErrorCode::memory, "tensor: cannot get {} bytes of memory", bytes);
  }
}

template <typename T>
Tensor copied(std::vector<std::int64_t> dims, DType dtype, std::span<const T> values) {
  Tensor t = Tensor::unset(std::move(dims), dtype);
  if (static_cast<std::size_t>(t.elements()) != values.size())
    fail(ErrorCode::shape, "tensor {}: expected {} values, found {}", dims_text(t.dims()),
         t.elements(), values.size());
  if (!values.empty()) std::memcpy(t.mutable_data(), values.data(), values.size_bytes());
  return t;
}

}  // namespace

Tensor Tensor::zeros(std::vector<std::int64_t> dims, DType dtype) {
  Tensor t = unset(std::move(dims), dtype);
  std::memset(t.mutable_data(), 0, static_cast<std::size_t>(t.byte_size()));
  return t;
}

Tensor Tensor::unset(std::vector<std::int64_t> dims, DType dtype) {
  Tensor t;
  t.owned_ = allocate(count_bytes(dims, dtype));
  t.data_ = t.owned_.get();
  t.dims_ = std::move(dims);
  t.dtype_ = dtype;
  return t;
}

Tensor Tensor::from(std::vector<std::int64_t> dims, std::span<const float> values) {
  return copied(std::move(dims), DType::f32, values);
}
Tensor Tensor::from(std::vector<std::int64_t> dims, std::span<const std::int32_t> values) {
  return copied(std::move(dims), DType::i32, values);
}

Tensor Tensor::borrow(std::vector<std::int64_t> dims, DType dtype,
                      std::span<const std::byte> bytes) {
  const std::int64_t expected = count_bytes(dims, dtype);
  if (static_cast<std::size_t>(expected) != bytes.size())
    fail(ErrorCode::shape, "tensor {}{}: expected {} bytes, found {}", name(dtype), dims_text(dims),
         expected, bytes.size());
  Tensor t;
  t.data_ = bytes.data();
  t.dims_ = std::move(dims);
  t.dtype_ = dtype;
  return t;
}

std::int64_t Tensor::elements() const {
  return data_ == nullptr && dims_.empty() ? 0 : count_elements(dims_);
}

std::int64_t Tensor::byte_size() const {
  return data_ == nullptr && dims_.empty() ? 0 : count_bytes(dims_, dtype_);
}

Shape Tensor::shape() const {
  std::vector<Dim> dims(dims_.begin(), dims_.end());
  return Shape(dims, dtype_);
}

std::byte* Tensor::mutable_data() {
  RLX_CHECK(owned_ != nullptr, "a borrowed tensor is read-only");
  return owned_.get();
}

std::vector<float> Tensor::to_floats() const {
  std::vector<float> values(static_cast<std::size_t>(elements()));
  if (values.empty()) return values;
  const std::int64_t n = dims_.empty() ? 1 : dims_.back(), bytes = row_bytes(dtype_, n);
  for (std::int64_t row = 0; row < elements() / n; ++row)  // a row of xq8 is decoded as a whole
    decoder(dtype_)(data_ + row * bytes, values.data() + row * n, n);
  return values;
}

}  // namespace rlx
