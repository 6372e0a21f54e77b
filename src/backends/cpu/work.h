// How the instruction-set units divide their work between threads and find the rows of a view. In
// the namespace of the level, as all that these units include.
#pragma once

#include <cstdint>

#include "ir/kernel_args.h"

#define RLX_ISA_TEXT_OF(level) #level
#define RLX_ISA_TEXT(level) RLX_ISA_TEXT_OF(level)
/// The name of a row: RLX_ROW_NAME("rms_norm_f32") is "rms_norm_f32_avx2" in the unit of avx2.
#define RLX_ROW_NAME(base) base "_" RLX_ISA_TEXT(RLX_ISA_LEVEL)

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

struct Range {
  std::int64_t begin, end;
};

/// The share of this thread in n units; every boundary but the last is a multiple of `step`.
inline Range part(const KernelArgs& a, std::int64_t n, std::int64_t step = 1) {
  const std::int64_t steps = (n + step - 1) / step, thread = a.thread;
  const std::int64_t begin = steps * thread / a.threads * step, end = steps * (thread + 1) / a.threads * step;
  return {begin < n ? begin : n, end < n ? end : n};
}

template <typename T>
inline T* at(const TensorView& v, std::int64_t bytes) {
  return reinterpret_cast<T*>(static_cast<std::byte*>(v.data) + bytes);
}

/// A view [..., n] as rows of n contiguous values; the leading axes may have any strides.
struct Rows {
  const TensorView& view;
  std::int64_t count = 1, n = 1;

  explicit Rows(const TensorView& v) : view(v) {
    if (v.rank > 0) n = v.dims[v.rank - 1];
    for (int i = 0; i + 1 < v.rank; ++i) count *= v.dims[i];
  }
  std::int64_t offset(std::int64_t row) const {
    std::int64_t bytes = 0;
    for (int i = view.rank - 2; i > 0; --i) {
      bytes += row % view.dims[i] * view.strides[i];
      row /= view.dims[i];
    }
    return view.rank >= 2 ? bytes + row * view.strides[0] : bytes;
  }
  template <typename T>
  T* row(std::int64_t r) const {
    return at<T>(view, offset(r));
  }
};

/// Whether the elements lie one after the other.
inline bool contiguous(const TensorView& v, std::int64_t element_bytes) {
  std::int64_t expected = element_bytes;
  for (int i = v.rank - 1; i >= 0; --i) {
    if (v.dims[i] != 1 && v.strides[i] != expected) return false;
    expected *= v.dims[i];
  }
  return true;
}

inline std::int64_t elements(const TensorView& v) {
  std::int64_t n = 1;
  for (int i = 0; i < v.rank; ++i) n *= v.dims[i];
  return n;
}

/// Where the rows of a batch stand in the cache. Rows are visited in rising order.
struct RowPlaces {
  const std::int32_t *seq_start, *past, *slot;
  const TensorView& pages;
  std::int64_t batch, seq = 0;

  RowPlaces(const TensorView& starts, const TensorView& pasts, const TensorView& slots, const TensorView& table)
      : seq_start(static_cast<const std::int32_t*>(starts.data)), past(static_cast<const std::int32_t*>(pasts.data)),
        slot(static_cast<const std::int32_t*>(slots.data)), pages(table), batch(pasts.dims[0]) {}

  /// Moves to the sequence of a row; false beyond the last sequence.
  bool seek(std::int64_t row) {
    while (seq < batch && row >= seq_start[seq + 1]) ++seq;
    return seq < batch;
  }
  /// Token index in the cache of a row of the sequence that was sought.
  std::int64_t token(std::int64_t row) const { return past[seq] + row - seq_start[seq]; }
  const std::int32_t* page_row(std::int64_t sequence) const {
    return at<const std::int32_t>(pages, slot[sequence] * pages.strides[0]);
  }
};

}  // namespace
}  // namespace rlx::cpu::RLX_ISA_LEVEL
