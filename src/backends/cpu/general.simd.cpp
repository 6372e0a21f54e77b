// Element-wise ops, choices, sums and moves of plain arrays with any strides and broadcasts. What the backward pass of
// a model is made of.
#include "backends/cpu/general.h"

#include "backends/cpu/simd.h"
#include "backends/cpu/simd_math.h"
#include "backends/cpu/table.h"
#include "backends/cpu/work.h"
#include "ops/arithmetic.h"
#include "ops/reduction.h"
#include "ops/shape_ops.h"

#if !defined(RLX_ISA_avx512_bf16)  // that level has nothing here that avx512 lacks
namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

// An operand as rows of the result that it broadcasts to.
struct Repeated {
  const TensorView& view;
  const TensorView& result;
  std::int64_t step = 0;  // bytes between neighbours of the last axis, 0: one value

  Repeated(const TensorView& v, const TensorView& y) : view(v), result(y), step(stride(y.rank - 1)) {}
  std::int64_t stride(int axis) const {
    const int own = axis - (result.rank - view.rank);
    return own < 0 || view.dims[own] == 1 ? 0 : view.strides[own];
  }
  const std::byte* row(std::int64_t r) const {
    std::int64_t bytes = 0;
    for (int axis = result.rank - 2; axis >= 0; --axis) {
      bytes += r % result.dims[axis] * stride(axis);
      r /= result.dims[axis];
    }
    return at<const std::byte>(view, bytes);
  }
};

// Lanes i .. i + n of a row.
RLX_SIMD f32x16 lanes(const std::byte* row, std::int64_t step, std::int64_t i, int n) {
  if (step == 0) return set1(*reinterpret_cast<const float*>(row));
  if (step == 4) {
    const auto* p = reinterpret_cast<const float*>(row) + i;
    return n == 16 ? load(p) : load_partial(p, n);
  }
  alignas(64) float t[16] = {};
  for (int k = 0; k < n; ++k) t[k] = *reinterpret_cast<const float*>(row + (i + k) * step);
  return load(t);
}

RLX_SIMD void put(float* p, f32x16 v, int n) {
  if (n == 16)
    store(p, v);
  else
    store_partial(p, v, n);
}

template <typename F>
RLX_SIMD void binary(const KernelArgs& args, F f) {
  const TensorView& y = args.out[0];
  const Repeated a(args.in[0], y), b(args.in[1], y);
  const Rows to(y);
  const Range mine = part(args, to.n > 0 ? to.count : 0);
  for (std::int64_t r = mine.begin; r < mine.end; ++r) {
    const std::byte *left = a.row(r), *right = b.row(r);
    auto* out = to.row<float>(r);
    for (std::int64_t i = 0; i < to.n; i += 16) {
      const int n = to.n - i < 16 ? static_cast<int>(to.n - i) : 16;
      put(out + i, f(lanes(left, a.step, i, n), lanes(right, b.step, i, n)), n);
    }
  }
}

// a, b: broadcast to y
void sub(const Sub&, const KernelArgs& a) noexcept {
  binary(a, [](f32x16 x, f32x16 z) __attribute__((always_inline)) { return x - z; });
}
void div(const Div&, const KernelArgs& a) noexcept {
  binary(a, [](f32x16 x, f32x16 z) __attribute__((always_inline)) { return x / z; });
}

template <typename F>
RLX_SIMD void each(const KernelArgs& args, F f) {
  const Rows from(args.in[0]), to(args.out[0]);
  const Range mine = part(args, to.n > 0 ? to.count : 0);
  for (std::int64_t r = mine.begin; r < mine.end; ++r) {
    const auto* in = from.row<const float>(r);
    auto* out = to.row<float>(r);
    for (std::int64_t i = 0; i < to.n; i += 16) {
      const int n = to.n - i < 16 ? static_cast<int>(to.n - i) : 16;
      put(out + i, f(n == 16 ? load(in + i) : load_partial(in + i, n)), n);
    }
  }
}

#define RLX_OF_EACH(expression) each(a, [](f32x16 x) __attribute__((always_inline)) { return expression; })
// x, y: any shape
void unary(const Unary& op, const KernelArgs& a) noexcept {
  switch (op.fn) {
    case UnaryFunction::neg: return RLX_OF_EACH(-x);
    case UnaryFunction::exp: return RLX_OF_EACH(exp(x));
    case UnaryFunction::sqrt: return RLX_OF_EACH(sqrt(x));
    case UnaryFunction::rsqrt: return RLX_OF_EACH(set1(1.0f) / sqrt(x));
    case UnaryFunction::reciprocal: return RLX_OF_EACH(set1(1.0f) / x);
    case UnaryFunction::abs: return RLX_OF_EACH(abs(x));
    case UnaryFunction::tanh: return RLX_OF_EACH(tanh(x));
    case UnaryFunction::erf: return RLX_OF_EACH(erf(x));
    case UnaryFunction::sigmoid: return RLX_OF_EACH(set1(1.0f) / (set1(1.0f) + exp(-x)));
    default: return;  // accepts_unary takes no other
  }
}
#undef RLX_OF_EACH

template <typename T>
inline bool related(Relation relation, T x, T y) {
  switch (relation) {
    case Relation::eq: return x == y;
    case Relation::ne: return x != y;
    case Relation::lt: return x < y;
    case Relation::le: return x <= y;
    case Relation::gt: return x > y;
    case Relation::ge: return x >= y;
  }
  return false;
}

template <typename T, Relation R>
void compare_rows(const KernelArgs& args) {
  const TensorView& y = args.out[0];
  const Repeated a(args.in[0], y), b(args.in[1], y);
  const Rows to(y);
  const Range mine = part(args, to.n > 0 ? to.count : 0);
  for (std::int64_t r = mine.begin; r < mine.end; ++r) {
    const std::byte *left = a.row(r), *right = b.row(r);
    auto* out = to.row<unsigned char>(r);
    for (std::int64_t i = 0; i < to.n; ++i)
      out[i] = related(R, *reinterpret_cast<const T*>(left + i * a.step),
                       *reinterpret_cast<const T*>(right + i * b.step));
  }
}
template <typename T>
void compare_of(Relation relation, const KernelArgs& a) {
  switch (relation) {
    case Relation::eq: return compare_rows<T, Relation::eq>(a);
    case Relation::ne: return compare_rows<T, Relation::ne>(a);
    case Relation::lt: return compare_rows<T, Relation::lt>(a);
    case Relation::le: return compare_rows<T, Relation::le>(a);
    case Relation::gt: return compare_rows<T, Relation::gt>(a);
    case Relation::ge: return compare_rows<T, Relation::ge>(a);
  }
}
// a, b: broadcast to y, boolean
void compare(const Compare& op, const KernelArgs& a) noexcept {
  if (a.in[0].dtype == DType::f32)
    compare_of<float>(op.relation, a);
  else
    compare_of<std::int32_t>(op.relation, a);
}

template <typename C>
void where_of(const KernelArgs& args) {
  const TensorView& y = args.out[0];
  const Repeated c(args.in[0], y), a(args.in[1], y), b(args.in[2], y);
  const Rows to(y);
  const Range mine = part(args, to.n > 0 ? to.count : 0);
  for (std::int64_t r = mine.begin; r < mine.end; ++r) {
    const std::byte *cond = c.row(r), *left = a.row(r), *right = b.row(r);
    auto* out = to.row<float>(r);
    for (std::int64_t i = 0; i < to.n; ++i) {
      const float x = *reinterpret_cast<const float*>(left + i * a.step);
      const float z = *reinterpret_cast<const float*>(right + i * b.step);
      out[i] = *reinterpret_cast<const C*>(cond + i * c.step) != 0 ? x : z;
    }
  }
}
// cond, a, b: broadcast to y
void where(const Where&, const KernelArgs& a) noexcept {
  if (a.in[0].dtype == DType::i32)
    where_of<std::int32_t>(a);
  else
    where_of<unsigned char>(a);
}

// The axis of a reduction: products of the dims before, of and after it.
struct Axis {
  std::int64_t outer = 1, length = 1, inner = 1;
  Axis(const TensorView& x, int axis) {
    const int own = axis < 0 ? axis + x.rank : axis;
    for (int i = 0; i < own; ++i) outer *= x.dims[i];
    length = x.dims[own];
    for (int i = own + 1; i < x.rank; ++i) inner *= x.dims[i];
  }
};
// Element i in row-major order.
inline const float* nth(const TensorView& v, std::int64_t i) {
  std::int64_t bytes = 0;
  for (int axis = v.rank - 1; axis >= 0; --axis) {
    bytes += i % v.dims[axis] * v.strides[axis];
    i /= v.dims[axis];
  }
  return at<const float>(v, bytes);
}

constexpr std::int64_t kColumns = 64;  // sums that stand side by side

// In increasing index, in double, as the reference. x: [outer, length, inner], y: [outer, inner]
void reduce(const Reduce& op, const KernelArgs& a) noexcept {
  const TensorView &x = a.in[0], &y = a.out[0];
  const Axis lines(x, op.axis);
  const int own = op.axis < 0 ? op.axis + x.rank : op.axis;
  const std::int64_t step = x.strides[own], chunks = (lines.inner + kColumns - 1) / kColumns;
  bool side_by_side = true;  // the values after the axis; else each is found
  for (int i = own + 2; i < x.rank; ++i) side_by_side &= x.strides[i - 1] == x.strides[i] * x.dims[i];
  const double scale = op.kind == Reduction::mean ? static_cast<double>(lines.length) : 1.0;
  const Range mine = part(a, lines.outer * chunks);
  for (std::int64_t i = mine.begin; i < mine.end; ++i) {
    const std::int64_t outer = i / chunks, first = i % chunks * kColumns;
    const std::int64_t n = lines.inner - first < kColumns ? lines.inner - first : kColumns;
    double sums[kColumns] = {};
    const auto* from = lines.length > 0
        ? reinterpret_cast<const std::byte*>(nth(x, outer * lines.length * lines.inner + first)) : nullptr;
    for (std::int64_t k = 0; k < lines.length; ++k) {
      if (side_by_side) {
        const auto* p = reinterpret_cast<const float*>(from + k * step);
        for (std::int64_t j = 0; j < n; ++j) sums[j] += static_cast<double>(p[j]);
      } else {
        for (std::int64_t j = 0; j < n; ++j)
          sums[j] += static_cast<double>(*nth(x, (outer * lines.length + k) * lines.inner + first + j));
      }
    }
    for (std::int64_t j = 0; j < n; ++j)
      *const_cast<float*>(nth(y, outer * lines.inner + first + j)) = static_cast<float>(sums[j] / scale);
  }
}

// x - m - log(sum(exp(x - m))) of rows [..., n]; sums in sixteen lanes.
void log_softmax(const LogSoftmax&, const KernelArgs& a) noexcept {
  const Rows from(a.in[0]), to(a.out[0]);
  const Range mine = part(a, to.n > 0 ? to.count : 0);
  for (std::int64_t r = mine.begin; r < mine.end; ++r) {
    const auto* x = from.row<const float>(r);
    auto* y = to.row<float>(r);
    float top = x[0];
    for (std::int64_t i = 1; i < to.n; ++i) top = x[i] > top || x[i] != x[i] ? x[i] : top;
    f32x16 sums = zero_f32();
    for (std::int64_t i = 0; i < to.n; i += 16) {
      const int n = to.n - i < 16 ? static_cast<int>(to.n - i) : 16;
      const f32x16 e = exp((n == 16 ? load(x + i) : load_partial(x + i, n)) - set1(top));
      sums = sums + (n == 16 ? e : select(first_lanes(n), e, zero_f32()));
    }
    const f32x16 shift = set1(top + static_cast<float>(__builtin_log(static_cast<double>(sum(sums)))));
    for (std::int64_t i = 0; i < to.n; i += 16) {
      const int n = to.n - i < 16 ? static_cast<int>(to.n - i) : 16;
      put(y + i, (n == 16 ? load(x + i) : load_partial(x + i, n)) - shift, n);
    }
  }
}

// y gets the elements of `from`, a view with y's dims.
void move(const KernelArgs& a, const TensorView& from) {
  const TensorView& y = a.out[0];
  const Rows in(from), to(y);
  const std::int64_t step = from.rank > 0 ? from.strides[from.rank - 1] : 0;
  const Range mine = part(a, to.count);
  for (std::int64_t r = mine.begin; r < mine.end; ++r) {
    const auto* p = in.row<const std::byte>(r);
    auto* out = to.row<std::int32_t>(r);
    for (std::int64_t i = 0; i < to.n; ++i) out[i] = *reinterpret_cast<const std::int32_t*>(p + i * step);
  }
}

// y's axis i is x's axis axes[i]
void transpose(const Transpose& op, const KernelArgs& a) noexcept {
  move(a, transposed_view(op, a.in[0]));
}
// x: its dims, aligned at the end, are y's or 1
void broadcast_to(const BroadcastTo&, const KernelArgs& a) noexcept {
  const TensorView& y = a.out[0];
  const Repeated x(a.in[0], y);
  TensorView from = y;
  from.data = a.in[0].data;
  for (int i = 0; i < y.rank; ++i) from.strides[i] = x.stride(i);
  move(a, from);
}

constexpr Isa kIsa = Isa::RLX_ISA_LEVEL;
constexpr Kernel kTable[] = {
    kernel<Sub, sub>(RLX_ROW_NAME("sub_f32"), kIsa, accepts_plain_f32),
    kernel<Div, div>(RLX_ROW_NAME("div_f32"), kIsa, accepts_plain_f32),
    kernel<Unary, unary>(RLX_ROW_NAME("unary_f32"), kIsa, accepts_unary),
    kernel<Compare, compare>(RLX_ROW_NAME("compare"), kIsa, accepts_compare),
    kernel<Where, where>(RLX_ROW_NAME("where_f32"), kIsa, accepts_where),
    kernel<Reduce, reduce>(RLX_ROW_NAME("reduce_f32"), kIsa, accepts_reduce),
    kernel<LogSoftmax, log_softmax>(RLX_ROW_NAME("log_softmax_f32"), kIsa, accepts_log_softmax),
    kernel<Transpose, transpose>(RLX_ROW_NAME("transpose_4_bytes"), kIsa, accepts_moved),
    kernel<BroadcastTo, broadcast_to>(RLX_ROW_NAME("broadcast_to_4_bytes"), kIsa, accepts_moved),
};

}  // namespace

KernelTable general_kernels() { return {kTable, sizeof(kTable) / sizeof(kTable[0])}; }

}  // namespace rlx::cpu::RLX_ISA_LEVEL
#endif
