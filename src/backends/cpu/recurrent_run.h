// What the recurrent kernels share: the sequences of a call with their states, rows, and the step
// size function. Work is dealt by lanes or heads, never by sequences: a worker takes all sequences in
// order, so a step may hold several parts of one sequence.
#pragma once

#include "backends/cpu/simd.h"
#include "backends/cpu/simd_math.h"
#include "backends/cpu/work.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

struct Run {
  std::int64_t begin = 0, end = 0;  // rows of x
  const float* from = nullptr;      // the state before; nullptr: zeros
  float* to = nullptr;              // and after
};

/// Operands from `first` on: nothing, a state f32[batch, ...], or a recurrent state [slots, ...],
/// seq_start, past and slot. Result 1 is the state after.
class Runs {
 public:
  Runs(const KernelArgs& a, int first) : after_(a.out[1]) {
    if (a.inputs > first) before_ = static_cast<const float*>(a.in[first].data);
    for (int i = 1; i < after_.rank; ++i) size_ *= after_.dims[i];
    if (a.inputs > first + 1) {
      seq_start_ = static_cast<const std::int32_t*>(a.in[first + 1].data);
      past_ = static_cast<const std::int32_t*>(a.in[first + 2].data);
      slot_ = static_cast<const std::int32_t*>(a.in[first + 3].data);
      count = a.in[first + 2].dims[0];
    } else {
      seq_ = a.in[0].dims[1];
      count = a.in[0].dims[0];
    }
  }
  std::int64_t count = 0;

  /// False for a sequence whose state stays as it is.
  bool get(std::int64_t b, Run& run) const {
    auto* after = static_cast<float*>(after_.data);
    if (seq_start_ == nullptr) {
      run = {b * seq_, (b + 1) * seq_, before_ == nullptr ? nullptr : before_ + b * size_, after + b * size_};
      return true;
    }
    const std::int64_t at = slot_[b] * size_;
    run = {seq_start_[b], seq_start_[b + 1], past_[b] == 0 ? nullptr : before_ + at, after + at};
    return run.end > run.begin;
  }

 private:
  const TensorView& after_;
  const float* before_ = nullptr;
  const std::int32_t *seq_start_ = nullptr, *past_ = nullptr, *slot_ = nullptr;
  std::int64_t size_ = 1, seq_ = 0;
};

/// A view [rows, n] or [batch, seq, n] in one piece of rows.
struct Lines {
  explicit Lines(const TensorView& v)
      : data(static_cast<std::byte*>(v.data)), stride(v.strides[v.rank - 2]), n(v.dims[v.rank - 1]) {
    for (int i = 0; i + 1 < v.rank; ++i) count *= v.dims[i];
  }
  template <typename T = const float>
  T* row(std::int64_t r) const {
    return reinterpret_cast<T*>(data + r * stride);
  }
  std::byte* data;
  std::int64_t stride, n, count = 1;
};

/// Sixteen lanes, or the first `lanes` of them.
template <bool Full>
RLX_SIMD f32x16 get(const float* p, [[maybe_unused]] int lanes) {
  if constexpr (Full) return load(p);
  return load_partial(p, lanes);
}
template <bool Full>
RLX_SIMD void put(float* p, f32x16 v, [[maybe_unused]] int lanes) {
  if constexpr (Full)
    store(p, v);
  else
    store_partial(p, v, lanes);
}

/// The block of lanes of a state [rows, width] that a worker owns, copied to where it is updated.
template <bool Full>
RLX_SIMD void begin_state(const float* from, float* to, std::int64_t rows, std::int64_t width, int lanes) {
  if (from == to) return;
  for (std::int64_t i = 0; i < rows; ++i)
    put<Full>(to + i * width, from == nullptr ? zero_f32() : get<Full>(from + i * width, lanes), lanes);
}

/// log(1 + e^x) = max(x, 0) + log1p(t), t = e^-|x|, and log1p(t) = 2 atanh(t / (2 + t)), whose
/// argument is at most 1/3: seven terms leave a relative error of 2e-8. NaN stays.
RLX_SIMD f32x16 softplus(f32x16 x) {
  const f32x16 t = exp(set1(0.0f) - abs(x));
  const f32x16 s = t / (t + set1(2.0f)), z = s * s;
  f32x16 q = set1(1.0f / 13);
  q = fma(q, z, set1(1.0f / 11));
  q = fma(q, z, set1(1.0f / 9));
  q = fma(q, z, set1(1.0f / 7));
  q = fma(q, z, set1(1.0f / 5));
  q = fma(q, z, set1(1.0f / 3));
  const f32x16 log = set1(2.0f) * fma(s * z, q, s);
  return max(set1(0.0f), x) + log;
}

}  // namespace
}  // namespace rlx::cpu::RLX_ISA_LEVEL
