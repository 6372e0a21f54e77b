#include "ops/access.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "tensor/quant/codec.h"

namespace rlx::access {
namespace {

std::int64_t last_stride(const TensorView& v) {
  return v.rank == 0 ? info(v.dtype).block_bytes : v.strides[v.rank - 1];
}

// Operands may start at any byte (misaligned samples), so values are copied out.
template <typename T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}
template <typename T>
void write(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

double decode_one(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::f32:
      return read<float>(at);
    case DType::f64:
      return read<double>(at);
    case DType::i32:
      return read<std::int32_t>(at);
    default:
      break;
  }
  float value = 0;
  decoder(dtype)(at, &value, 1);
  return value;
}

void decode(const TensorView& v, const std::byte* at, std::int64_t n, double* out) {
  const DTypeInfo& type = info(v.dtype);
  const bool wide = v.dtype == DType::f32 || v.dtype == DType::f64 || v.dtype == DType::i32;
  if (type.block_elements == 1 && (wide || last_stride(v) != type.block_bytes)) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = decode_one(v.dtype, at + i * last_stride(v));
    return;
  }
  std::vector<float> values(static_cast<std::size_t>(n));
  decoder(v.dtype)(at, values.data(), n);
  for (std::int64_t i = 0; i < n; ++i) out[i] = values[static_cast<std::size_t>(i)];
}

}  // namespace

TensorView view_of(const Tensor& tensor) {
  TensorView v;
  v.data =
      const_cast<std::byte*>(tensor.data());  // NOLINT: a view serves operands and results alike
  v.dtype = tensor.dtype();
  v.rank = static_cast<std::int8_t>(tensor.dims().size());
  std::int64_t stride = info(v.dtype).block_bytes;
  for (int i = v.rank - 1; i >= 0; --i) {
    v.dims[i] = tensor.dims()[static_cast<std::size_t>(i)];
    v.strides[i] = stride;
    stride = i == v.rank - 1 ? row_bytes(v.dtype, v.dims[i]) : stride * v.dims[i];
  }
  return v;
}

Part part_of(const KernelArgs& a, std::int64_t n) {
  return {n * a.thread / a.threads, n * (a.thread + 1) / a.threads};
}

std::int64_t row_count(const TensorView& v) {
  std::int64_t rows = 1;
  for (int i = 0; i + 1 < v.rank; ++i) rows *= v.dims[i];
  return rows;
}

std::int64_t columns(const TensorView& v) { return v.rank == 0 ? 1 : v.dims[v.rank - 1]; }

std::byte* row_pointer(const TensorView& v, std::int64_t row) {
  std::byte* at = static_cast<std::byte*>(v.data);
  for (int i = v.rank - 2; i >= 0; --i) {
    at += row % v.dims[i] * v.strides[i];
    row /= v.dims[i];
  }
  return at;
}

void load_row(const TensorView& v, std::int64_t row, double* out) {
  decode(v, row_pointer(v, row), columns(v), out);
}

std::vector<double> load_rows(const TensorView& v, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = columns(v);
  std::vector<double> values(static_cast<std::size_t>((end - begin) * n));
  for (std::int64_t r = begin; r < end; ++r) load_row(v, r, values.data() + (r - begin) * n);
  return values;
}

void load_broadcast(const TensorView& v, const TensorView& result, std::int64_t row, double* out) {
  const std::byte* at = static_cast<const std::byte*>(v.data);
  for (int axis = result.rank - 2; axis >= 0; --axis) {
    const int own = axis - (result.rank - v.rank);
    if (own >= 0 && v.dims[own] != 1) at += row % result.dims[axis] * v.strides[own];
    row /= result.dims[axis];
  }
  const std::int64_t n = columns(result);
  if (columns(v) == n) {
    decode(v, at, n, out);
    return;
  }
  const double value = decode_one(v.dtype, at);
  for (std::int64_t i = 0; i < n; ++i) out[i] = value;
}

double load(const TensorView& v, std::int64_t row, std::int64_t column) {
  return decode_one(v.dtype, row_pointer(v, row) + column * last_stride(v));
}

void store(const TensorView& v, std::int64_t row, std::int64_t column, double value) {
  std::byte* at = row_pointer(v, row) + column * last_stride(v);
  const float rounded = static_cast<float>(value);
  switch (v.dtype) {
    case DType::f64:
      return write(at, value);
    case DType::f32:
      return write(at, rounded);
    case DType::f16:
      return write(at, f32_to_f16(rounded));
    case DType::bf16:
      return write(at, f32_to_bf16(rounded));
    case DType::i32:
      return write(at, wrap_i32(value));
    case DType::boolean:
      return write(at, std::uint8_t{value != 0.0});
    default:
      RLX_CHECK(false, std::string(name(v.dtype)));
  }
}

void store_row(const TensorView& v, std::int64_t row, const double* values) {
  for (std::int64_t i = 0; i < columns(v); ++i) store(v, row, i, values[i]);
}

std::int32_t wrap_i32(double value) {
  if (std::isnan(value)) return 0;
  if (std::abs(value) >= 0x1p62) return value > 0 ? INT32_MAX : INT32_MIN;
  return static_cast<std::int32_t>(static_cast<std::int64_t>(value));
}

std::byte* element(const TensorView& v, std::int64_t i) {
  const std::int64_t n = columns(v);
  return row_pointer(v, i / n) + i % n * last_stride(v);
}

double load_at(const TensorView& v, std::int64_t i) { return decode_one(v.dtype, element(v, i)); }

void store_at(const TensorView& v, std::int64_t i, double value) {
  const std::int64_t n = columns(v);
  store(v, i / n, i % n, value);
}

int axis_of(int axis, int rank) { return axis < 0 ? axis + rank : axis; }

Lines lines_of(const TensorView& v, int axis) {
  const int at = axis_of(axis, v.rank);
  Lines lines{1, v.dims[at], 1};
  for (int i = 0; i < at; ++i) lines.outer *= v.dims[i];
  for (int i = at + 1; i < v.rank; ++i) lines.inner *= v.dims[i];
  return lines;
}

TensorView permuted(const TensorView& v, const int* axes, int count) {
  TensorView out = v;
  out.rank = static_cast<std::int8_t>(count);
  for (int i = 0; i < count; ++i) {
    out.dims[i] = v.dims[axes[i]];
    out.strides[i] = v.strides[axes[i]];
  }
  return out;
}

TensorView broadcast(const TensorView& v, const TensorView& to) {
  TensorView out = v;
  out.rank = to.rank;
  for (int i = 0; i < to.rank; ++i) {
    const int own = i - (to.rank - v.rank);
    out.dims[i] = to.dims[i];
    out.strides[i] = own >= 0 && v.dims[own] != 1 ? v.strides[own] : 0;
  }
  return out;
}

void copy_rows(const KernelArgs& a, const TensorView& from, const TensorView& to) {
  const auto bytes = static_cast<std::size_t>(info(to.dtype).block_bytes);
  const Part part = part_of(a, row_count(to));
  for (std::int64_t r = part.begin; r < part.end; ++r) {
    const std::byte* source = row_pointer(from, r);
    std::byte* target = row_pointer(to, r);
    for (std::int64_t i = 0; i < columns(to); ++i)
      std::memcpy(target + i * last_stride(to), source + i * last_stride(from), bytes);
  }
}

std::int64_t load_int(const TensorView& v, std::int64_t i) {
  return read<std::int32_t>(element(v, i));
}

std::int64_t load_index(const TensorView& v, std::int64_t i, std::int64_t limit, const char* what) {
  const std::int64_t value = load_int(v, i);
  if (value < 0 || value >= limit)
    fail(ErrorCode::invalid_argument, "{}: expected a value from 0 to {}, found {} at place {}",
         what, limit - 1, value, i);
  return value;
}

}  // namespace rlx::access
