// Block formats to f32 and back, row by row with the reference codec: both directions are exact by definition, and
// weights pass through them once, not in a step.
#include "backends/cpu/conv.h"
#include "ops/quant.h"
#include "tensor/quant/codec.h"

namespace rlx::cpu {
namespace {

std::int64_t rows_of(const TensorView& v) {
  std::int64_t n = 1;
  for (int i = 0; i + 1 < v.rank; ++i) n *= v.dims[i];
  return n;
}

std::byte* codec_row(const TensorView& v, std::int64_t row) {
  std::int64_t bytes = 0;
  for (int i = v.rank - 2; i >= 0; --i) {
    bytes += row % v.dims[i] * v.strides[i];
    row /= v.dims[i];
  }
  return static_cast<std::byte*>(v.data) + bytes;
}

// Calls f(row of x, row of y, n) for this thread's rows.
template <typename F>
void each_codec_row(const KernelArgs& a, F f) {
  const TensorView &x = a.in[0], &y = a.out[0];
  const std::int64_t rows = rows_of(x), n = x.dims[x.rank - 1], end = rows * (a.thread + 1) / a.threads;
  for (std::int64_t r = rows * a.thread / a.threads; r < end; ++r) f(codec_row(x, r), codec_row(y, r), n);
}

void quantize(const Quantize& op, const KernelArgs& a) noexcept {
  const EncodeRow encode = encoder(op.dtype);
  each_codec_row(a, [&](const std::byte* x, std::byte* y, std::int64_t n) {
    encode(reinterpret_cast<const float*>(x), y, n);
  });
}

void dequantize(const Dequantize&, const KernelArgs& a) noexcept {
  const DecodeRow decode = decoder(a.in[0].dtype);
  each_codec_row(a, [&](const std::byte* x, std::byte* y, std::int64_t n) {
    decode(x, reinterpret_cast<float*>(y), n);
  });
}

bool accepts_quantize(const KernelQuery& q) { return q.in[0].dtype == DType::f32; }
bool accepts_dequantize(const KernelQuery& q) {
  return q.in[0].layout == Layout::plain && decoder(q.in[0].dtype) != nullptr;
}

constexpr Kernel kTable[] = {
    kernel<Quantize, quantize>("quantize_f32_blocks", Isa::baseline, accepts_quantize),
    kernel<Dequantize, dequantize>("dequantize_blocks_f32", Isa::baseline, accepts_dequantize),
};

}  // namespace

KernelTable codec_kernels() { return {kTable, static_cast<int>(std::size(kTable))}; }

}  // namespace rlx::cpu
