// Products of two activations, row by row of the result: with b as it lies, 64 columns at a time, each a chain in
// increasing k; with b transposed, dot products of 16 partial chains. A row's bits depend on its operands alone.
#include "backends/cpu/batched_matmul.h"

#include "backends/cpu/simd.h"
#include "backends/cpu/table.h"
#include "backends/cpu/work.h"
#include "ops/product.h"

#if !defined(RLX_ISA_avx512_bf16)  // that level has nothing here that avx512 lacks
namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

/// Where the matrix of batch place `place` of the result begins in an operand, whose batch dims of 1 repeat.
inline std::int64_t matrix_offset(const TensorView& x, const TensorView& y, std::int64_t place) {
  std::int64_t bytes = 0;
  for (int axis = y.rank - 3; axis >= 0; --axis) {
    const int own = axis - (y.rank - x.rank);
    if (own >= 0 && x.dims[own] != 1) bytes += place % y.dims[axis] * x.strides[own];
    place /= y.dims[axis];
  }
  return bytes;
}

/// y[0 .. n) = sum over l of a[l] * b[l][.]; rows of b are `stride` floats apart. Up to 64 columns.
RLX_SIMD void columns(const float* a, const float* b, std::int64_t stride, std::int64_t k, float* y, int n) {
  f32x16 sums[4] = {zero_f32(), zero_f32(), zero_f32(), zero_f32()};
  if (n == 64) {
    for (std::int64_t l = 0; l < k; ++l) {
      const f32x16 x = set1(a[l]);
      for (int i = 0; i < 4; ++i) sums[i] = fma(x, load(b + l * stride + 16 * i), sums[i]);
    }
    for (int i = 0; i < 4; ++i) store(y + 16 * i, sums[i]);
    return;
  }
  for (int at = 0; at < n; at += 16) {
    const int width = n - at < 16 ? n - at : 16;
    f32x16 sum = zero_f32();
    for (std::int64_t l = 0; l < k; ++l) {
      const float* from = b + l * stride + at;
      sum = fma(set1(a[l]), width == 16 ? load(from) : load_partial(from, width), sum);
    }
    store_partial(y + at, sum, width);
  }
}

RLX_SIMD float dot(const float* a, const float* b, std::int64_t k) {
  f32x16 partial = zero_f32();
  std::int64_t l = 0;
  for (; l + 16 <= k; l += 16) partial = fma(load(a + l), load(b + l), partial);
  if (l < k) {
    const int rest = static_cast<int>(k - l);
    partial = fma(load_partial(a + l, rest), load_partial(b + l, rest), partial);
  }
  return sum(partial);
}

// a: [..., m, k]; b: [..., k, n], or [..., n, k] with transpose_b; y: [..., m, n]
void batched_matmul(const BatchedMatmul& op, const KernelArgs& args) noexcept {
  const TensorView &a = args.in[0], &b = args.in[1], &y = args.out[0];
  const std::int64_t m = y.dims[y.rank - 2], n = y.dims[y.rank - 1], k = a.dims[a.rank - 1];
  const std::int64_t a_row = a.strides[a.rank - 2], b_row = b.strides[b.rank - 2] / 4;
  std::int64_t places = 1;
  for (int i = 0; i < y.rank - 2; ++i) places *= y.dims[i];
  const Range mine = part(args, places * m);
  for (std::int64_t line = mine.begin; line < mine.end; ++line) {
    const std::int64_t place = line / m, row = line % m;
    const auto* left = at<const float>(a, matrix_offset(a, y, place) + row * a_row);
    const auto* right = at<const float>(b, matrix_offset(b, y, place));
    auto* result = at<float>(y, matrix_offset(y, y, place) + row * y.strides[y.rank - 2]);
    if (op.transpose_b)
      for (std::int64_t j = 0; j < n; ++j) result[j] = dot(left, right + j * b_row, k);
    else
      for (std::int64_t j = 0; j < n; j += 64)
        columns(left, right + j, b_row, k, result + j, static_cast<int>(n - j < 64 ? n - j : 64));
  }
}

constexpr Kernel kTable[] = {
    kernel<BatchedMatmul, batched_matmul>(RLX_ROW_NAME("batched_matmul_f32"), Isa::RLX_ISA_LEVEL,
                                          accepts_batched_matmul),
};

}  // namespace

KernelTable batched_matmul_kernels() { return {kTable, sizeof(kTable) / sizeof(kTable[0])}; }

}  // namespace rlx::cpu::RLX_ISA_LEVEL
#endif
