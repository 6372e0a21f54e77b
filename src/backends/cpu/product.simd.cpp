// Products of plain f32 matrices with any strides, and of stored weights from their other side. Every result is one
// chain of fused multiply-adds in increasing k: the bits do not depend on rows, batch or threads.
#include "backends/cpu/product.h"

#include "backends/cpu/simd.h"
#include "backends/cpu/simd_math.h"
#include "backends/cpu/table.h"
#include "backends/cpu/work.h"
#include "ops/matmul.h"
#include "ops/product.h"
#include "ops/weight_product.h"

#if !defined(RLX_ISA_avx512_bf16)  // that level has nothing here that avx512 lacks
namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

// Accumulators of a tile: with the strip's line and a broadcast they fill the registers of the level.
#if defined(RLX_WIDE)
constexpr int kTileRows = 12;
#elif defined(RLX_ISA_avx2)
constexpr int kTileRows = 6;
#else
constexpr int kTileRows = 3;
#endif

struct Left {
  const std::byte* at;                 // element (row 0, k 0)
  std::int64_t row_stride, k_stride;   // bytes
};

RLX_SIMD void store_strip(float* p, f32x16 v, int width) {
  if (width == kStrip)
    store(p, v);
  else
    store_partial(p, v, width);
}
RLX_SIMD f32x16 load_strip(const float* p, int width) { return width == kStrip ? load(p) : load_partial(p, width); }

// acc[r] += sum over l of a[row + r, l] * b[l, 0 .. 16].
template <int R>
RLX_SIMD void add_products(const Left& a, std::int64_t row, const float* b, std::int64_t k, f32x16 (&acc)[R]) {
  const std::byte* p = a.at + row * a.row_stride;
  for (std::int64_t l = 0; l < k; ++l, b += kStrip, p += a.k_stride) {
    const f32x16 right = load(b);
    for (int r = 0; r < R; ++r)
      acc[r] = fma(set1(*reinterpret_cast<const float*>(p + r * a.row_stride)), right, acc[r]);
  }
}

// What happens to a strip of a result's row when its sums are complete.
struct Finish {
  const float* bias = nullptr;      // of the strip
  const std::byte* residual = nullptr;
  std::int64_t residual_stride = 0;
  Act act = Act::none;
};

RLX_SIMD f32x16 activated(Act act, f32x16 x) {
  switch (act) {
    case Act::silu: return activate<Act::silu>(x);
    case Act::gelu_tanh: return activate<Act::gelu_tanh>(x);
    case Act::gelu: return activate<Act::gelu>(x);
    case Act::relu: return activate<Act::relu>(x);
    case Act::none: break;
  }
  return x;
}

RLX_SIMD f32x16 finished(const Finish& f, f32x16 sum, std::int64_t row, int width) {
  if (f.bias != nullptr) sum = sum + load_partial(f.bias, width);
  sum = activated(f.act, sum);
  if (f.residual != nullptr)
    sum = sum + load_partial(reinterpret_cast<const float*>(f.residual + row * f.residual_stride), width);
  return sum;
}

// 16 columns of the right side, [k, 16] with zeros beyond `width`, and where their results go.
struct Strip {
  const float* lines;
  std::int64_t k;
  std::byte* y;
  std::int64_t y_stride;
  int width;
};

template <int R>
RLX_SIMD void tile(const Left& a, std::int64_t row, const Strip& s, const Finish& f) {
  f32x16 acc[R];
  for (int r = 0; r < R; ++r) acc[r] = zero_f32();
  add_products<R>(a, row, s.lines, s.k, acc);
  for (int r = 0; r < R; ++r)
    store_strip(reinterpret_cast<float*>(s.y + (row + r) * s.y_stride), finished(f, acc[r], row + r, s.width), s.width);
}

// One strip of y = a b: all rows.
void multiply_strip(const Left& a, std::int64_t rows, const Strip& s, const Finish& f) {
  std::int64_t row = 0;
  for (; row + kTileRows <= rows; row += kTileRows) tile<kTileRows>(a, row, s, f);
  for (; row + 4 <= rows && kTileRows > 4; row += 4) tile<4>(a, row, s, f);
  for (; row < rows; ++row) tile<1>(a, row, s, f);
}

// b[l, j] for the 16 columns from `b` on, where columns lie `column_stride` and k `k_stride` bytes apart.
void fill_strip(const std::byte* b, std::int64_t k_stride, std::int64_t column_stride, std::int64_t k, int width,
                float* strip) {
  if (column_stride == 4) {
    for (std::int64_t l = 0; l < k; ++l)
      store(strip + l * kStrip, load_strip(reinterpret_cast<const float*>(b + l * k_stride), width));
    return;
  }
  if (width < kStrip)
    for (std::int64_t l = 0; l < k; ++l) store(strip + l * kStrip, zero_f32());
  for (int j = 0; j < width; ++j) {
    const std::byte* from = b + j * column_stride;
    for (std::int64_t l = 0; l < k; ++l) strip[l * kStrip + j] = *reinterpret_cast<const float*>(from + l * k_stride);
  }
}

// Bytes from the start of an operand to the matrix of batch `index` of the result.
std::int64_t batch_offset(const TensorView& v, const TensorView& y, std::int64_t index) {
  std::int64_t bytes = 0;
  for (int axis = y.rank - 3; axis >= 0; --axis) {
    const std::int64_t i = index % y.dims[axis];
    index /= y.dims[axis];
    const int own = axis - (y.rank - v.rank);
    if (own >= 0 && v.dims[own] != 1) bytes += i * v.strides[own];
  }
  return bytes;
}

// a: [..., m, k] or [..., k, m]; b: [..., k, n] or [..., n, k]; y: [..., m, n]
void batched_matmul(const BatchedMatmul& op, const KernelArgs& args) noexcept {
  const TensorView &a = args.in[0], &b = args.in[1], &y = args.out[0];
  const int a_row = a.rank - (op.transpose_a ? 1 : 2), a_k = a.rank - (op.transpose_a ? 2 : 1);
  const int b_k = b.rank - (op.transpose_b ? 1 : 2), b_column = b.rank - (op.transpose_b ? 2 : 1);
  const std::int64_t m = y.dims[y.rank - 2], n = y.dims[y.rank - 1], k = a.dims[a_k];
  const std::int64_t strips = (n + kStrip - 1) / kStrip;
  std::int64_t batch = 1;
  for (int i = 0; i < y.rank - 2; ++i) batch *= y.dims[i];
  auto* strip = reinterpret_cast<float*>(args.scratch);
  const Range mine = part(args, batch * strips);
  for (std::int64_t i = mine.begin; i < mine.end; ++i) {
    const std::int64_t at_batch = i / strips, column = i % strips * kStrip;
    const int width = static_cast<int>(n - column < kStrip ? n - column : kStrip);
    const auto* right = at<const std::byte>(b, batch_offset(b, y, at_batch) + column * b.strides[b_column]);
    fill_strip(right, b.strides[b_k], b.strides[b_column], k, width, strip);
    const Left left{at<const std::byte>(a, batch_offset(a, y, at_batch)), a.strides[a_row], a.strides[a_k]};
    auto* to = at<std::byte>(y, batch_offset(y, y, at_batch) + column * 4);
    multiply_strip(left, m, {strip, k, to, y.strides[y.rank - 2], width}, {});
  }
}

// The rows of a view [..., n] as one stride; false where the leading axes do not lie in one piece.
bool single_stride(const TensorView& v, std::int64_t& stride) {
  stride = v.rank >= 2 ? v.strides[v.rank - 2] : 0;
  for (int i = v.rank - 3; i >= 0; --i)
    if (v.dims[i] != 1 && v.strides[i] != v.strides[i + 1] * v.dims[i + 1]) return false;
  return true;
}

// x: [..., k]; w: f32 [n, k] plain; bias: [n]; residual, y: [..., n]
void plain_linear(const Linear& op, const KernelArgs& args) noexcept {
  const TensorView &x = args.in[0], &w = args.in[1], &y = args.out[0];
  const Rows xs(x), ys(y);
  const std::int64_t n = w.dims[0], k = w.dims[1], strips = (n + kStrip - 1) / kStrip;
  auto* strip = reinterpret_cast<float*>(args.scratch);
  const TensorView* residual = op.residual ? &args.in[op.residual_at()] : nullptr;
  std::int64_t x_stride = 0, y_stride = 0, r_stride = 0;
  const bool whole = single_stride(x, x_stride) && single_stride(y, y_stride) &&
                     (residual == nullptr || single_stride(*residual, r_stride));
  const Range mine = part(args, strips);
  for (std::int64_t i = mine.begin; i < mine.end; ++i) {
    const std::int64_t column = i * kStrip;
    const int width = static_cast<int>(n - column < kStrip ? n - column : kStrip);
    fill_strip(at<const std::byte>(w, column * w.strides[0]), w.strides[1], w.strides[0], k, width, strip);
    Finish f{op.bias ? static_cast<const float*>(args.in[op.bias_at()].data) + column : nullptr, nullptr, r_stride,
             op.act};
    for (std::int64_t row = 0; row < (whole ? 1 : xs.count); ++row) {
      if (residual != nullptr) f.residual = at<const std::byte>(*residual, Rows(*residual).offset(row) + column * 4);
      multiply_strip({xs.row<const std::byte>(row), x_stride, 4}, whole ? xs.count : 1,
                     {strip, k, ys.row<std::byte>(row) + column * 4, y_stride, width}, f);
    }
  }
}

// Rows first .. first + count of w decoded, 16 columns of them: lines `line` floats apart.
struct Decoded {
  std::int64_t first, count;
  const float* lines;
  std::int64_t line, column;
  int width;
};

// y[row .. row + R, column .. column + width] gets the products with these rows added.
template <int R>
RLX_SIMD void accumulate(const Rows& x, const Rows& y, std::int64_t row, const Decoded& w) {
  const float* left[R];
  float* to[R];
  f32x16 acc[R];
  for (int r = 0; r < R; ++r) {
    left[r] = x.row<const float>(row + r) + w.first;
    to[r] = y.row<float>(row + r) + w.column;
    acc[r] = w.first == 0 ? zero_f32() : load_strip(to[r], w.width);
  }
  for (std::int64_t j = 0; j < w.count; ++j) {
    const f32x16 right = load(w.lines + j * w.line);
    for (int r = 0; r < R; ++r) acc[r] = fma(set1(left[r][j]), right, acc[r]);
  }
  for (int r = 0; r < R; ++r) store_strip(to[r], acc[r], w.width);
}

// x: [..., n]; w: [n, k] of any storage type, plain; y: [..., k]. Each worker has columns of its own and decodes only
// those, a few rows of w at a time.
void linear_transposed(const LinearTransposed&, const KernelArgs& a) noexcept {
  const TensorView& w = a.in[1];
  const Rows x(a.in[0]), y(a.out[0]);
  const std::int64_t n = w.dims[0], k = w.dims[1];
  const ColumnPart mine = column_part(w.dtype, k, a.thread, a.threads);
  const std::int64_t own = mine.end - mine.begin, line = (own + 15) / 16 * 16;
  auto* lines = reinterpret_cast<float*>(a.scratch);
  if (n == 0)
    for (std::int64_t row = 0; row < y.count; ++row)
      for (std::int64_t i = mine.begin; i < mine.end; ++i) y.row<float>(row)[i] = 0;
  for (std::int64_t first = 0; first < n && own > 0; first += kDecodedRows) {
    const std::int64_t count = n - first < kDecodedRows ? n - first : kDecodedRows;
    for (std::int64_t j = 0; j < count; ++j)
      decode_columns(w.dtype, at<const std::byte>(w, (first + j) * w.strides[0]), mine, lines + j * line);
    for (std::int64_t i = 0; i < own; i += kStrip) {
      const int width = static_cast<int>(own - i < kStrip ? own - i : kStrip);
      const Decoded rows{first, count, lines + i, line, mine.begin + i, width};
      std::int64_t row = 0;
      for (; row + kTileRows <= x.count; row += kTileRows) accumulate<kTileRows>(x, y, row, rows);
      for (; row + 4 <= x.count && kTileRows > 4; row += 4) accumulate<4>(x, y, row, rows);
      for (; row < x.count; ++row) accumulate<1>(x, y, row, rows);
    }
  }
}

constexpr Isa kIsa = Isa::RLX_ISA_LEVEL;
constexpr Kernel kTable[] = {
    kernel<BatchedMatmul, batched_matmul>(RLX_ROW_NAME("batched_matmul_f32"), kIsa, accepts_batched_matmul,
                                          scratch_batched_matmul),
    kernel<Linear, plain_linear>(RLX_ROW_NAME("linear_f32_plain"), kIsa, accepts_plain_linear, scratch_plain_linear),
    kernel<LinearTransposed, linear_transposed>(RLX_ROW_NAME("linear_transposed_f32_any"), kIsa,
                                                accepts_linear_transposed, scratch_linear_transposed),
};

}  // namespace

KernelTable product_kernels() { return {kTable, sizeof(kTable) / sizeof(kTable[0])}; }

}  // namespace rlx::cpu::RLX_ISA_LEVEL
#endif
