// Element-wise ops. Operands that lie in one piece run flat, sixteen elements at a time; other
// strides and broadcasts take a path that finds each row of the result.
#include "backends/cpu/elementwise.h"

#include "backends/cpu/simd.h"
#include "backends/cpu/simd_math.h"
#include "backends/cpu/table.h"
#include "backends/cpu/work.h"
#include "ops/elementwise.h"

#if !defined(RLX_ISA_avx512_bf16)  // that level has nothing here that avx512 lacks
namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

// y[i] = f(x[i]) for i in the range.
template <typename F>
RLX_SIMD void map_run(const float* x, float* y, std::int64_t n, F f) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(y + i, f(load(x + i)));
  if (i < n) store_partial(y + i, f(load_partial(x + i, static_cast<int>(n - i))), static_cast<int>(n - i));
}

template <typename F>
RLX_SIMD void map(const KernelArgs& a, F f) {
  const TensorView &x = a.in[0], &y = a.out[0];
  if (contiguous(x, 4) && contiguous(y, 4)) {
    const Range mine = part(a, elements(x), 16);
    map_run(static_cast<const float*>(x.data) + mine.begin,
        static_cast<float*>(y.data) + mine.begin, mine.end - mine.begin, f);
    return;
  }
  const Rows from(x), to(y);
  const Range mine = part(a, from.count);
  for (std::int64_t r = mine.begin; r < mine.end; ++r) map_run(from.row<const float>(r), to.row<float>(r), from.n, f);
}

template <Act A>
void activation_of(const KernelArgs& a) {
  map(a, [](f32x16 x) __attribute__((always_inline)) { return activate<A>(x); });
}
// x, y: any shape
void activation(const Activation& op, const KernelArgs& a) noexcept {
  switch (op.act) {
    case Act::none: return activation_of<Act::none>(a);
    case Act::silu: return activation_of<Act::silu>(a);
    case Act::gelu_tanh: return activation_of<Act::gelu_tanh>(a);
    case Act::gelu: return activation_of<Act::gelu>(a);
    case Act::relu: return activation_of<Act::relu>(a);
  }
}
void scale(const Scale& op, const KernelArgs& a) noexcept {
  const f32x16 factor = set1(op.factor);
  map(a, [factor](f32x16 x) __attribute__((always_inline)) { return x * factor; });
}
void softcap_op(const Softcap& op, const KernelArgs& a) noexcept {
  const float cap = op.cap;
  map(a, [cap](f32x16 x) __attribute__((always_inline)) { return softcap(x, cap); });
}

enum class Second { vector, scalar };  // how the second operand of a run moves

template <Second S, typename F>
RLX_SIMD void zip_run(const float* x, const float* z, float* y, std::int64_t n, F f) {
  std::int64_t i = 0;
  const f32x16 same = set1(*z);
  for (; i + 16 <= n; i += 16) store(y + i, f(load(x + i), S == Second::scalar ? same : load(z + i)));
  const int tail = static_cast<int>(n - i);
  if (tail == 0) return;
  const f32x16 second = S == Second::scalar ? same : load_partial(z + i, tail);
  store_partial(y + i, f(load_partial(x + i, tail), second), tail);
}

// Stride in bytes of an operand along an axis of the result; 0 where it repeats.
std::int64_t stride_along(const TensorView& v, int axis, int result_rank) {
  const int own = axis - (result_rank - v.rank);
  return own < 0 || v.dims[own] == 1 ? 0 : v.strides[own];
}

// Any strides and broadcasts: per row of the result, lane by lane where an operand's last axis
// neither repeats nor is contiguous.
template <typename F>
RLX_SIMD void zip_general(const KernelArgs& a, F f) {
  const TensorView &x = a.in[0], &z = a.in[1], &y = a.out[0];
  const int rank = y.rank, last = rank - 1;
  const Rows to(y);
  const std::int64_t sx = rank > 0 ? stride_along(x, last, rank) : 0, sz = rank > 0 ? stride_along(z, last, rank) : 0;
  const Range mine = part(a, to.n > 0 ? to.count : 0);
  for (std::int64_t r = mine.begin; r < mine.end; ++r) {
    std::int64_t rest = r, ox = 0, oz = 0;
    for (int axis = last - 1; axis >= 0; --axis) {
      const std::int64_t index = rest % y.dims[axis];
      rest /= y.dims[axis];
      ox += index * stride_along(x, axis, rank);
      oz += index * stride_along(z, axis, rank);
    }
    const auto *px = at<const float>(x, ox), *pz = at<const float>(z, oz);
    auto* py = to.row<float>(r);
    if (sx == 4 && sz == 4) {
      zip_run<Second::vector>(px, pz, py, to.n, f);
    } else if (sx == 4 && sz == 0) {
      zip_run<Second::scalar>(px, pz, py, to.n, f);
    } else if (sx == 0 && sz == 4) {
      zip_run<Second::scalar>(pz, px, py, to.n, f);
    } else {
      for (std::int64_t i = 0; i < to.n; ++i)
        store_partial(py + i, f(set1(*at<const float>(x, ox + i * sx)), set1(*at<const float>(z, oz + i * sz))), 1);
    }
  }
}

// f is commutative.
template <typename F>
RLX_SIMD void zip(const KernelArgs& a, F f) {
  const TensorView &y = a.out[0], *x = &a.in[0], *z = &a.in[1];
  const std::int64_t n = elements(y);
  if (elements(*x) < elements(*z)) {
    const TensorView* other = x;
    x = z;
    z = other;
  }
  const std::int64_t nz = elements(*z);
  if (n == 0 || elements(*x) != n || !contiguous(*x, 4) || !contiguous(*z, 4) ||
      !contiguous(y, 4) || (nz != n && nz != 1))
    return zip_general(a, f);
  const Range mine = part(a, n, 16);
  const auto *px = static_cast<const float*>(x->data) + mine.begin, *pz = static_cast<const float*>(z->data);
  auto* py = static_cast<float*>(y.data) + mine.begin;
  if (mine.begin >= mine.end) return;
  if (nz == n)
    zip_run<Second::vector>(px, pz + mine.begin, py, mine.end - mine.begin, f);
  else
    zip_run<Second::scalar>(px, pz, py, mine.end - mine.begin, f);
}

void add(const Add&, const KernelArgs& a) noexcept {
  zip(a, [](f32x16 x, f32x16 z) __attribute__((always_inline)) { return x + z; });
}
void mul(const Mul&, const KernelArgs& a) noexcept {
  zip(a, [](f32x16 x, f32x16 z) __attribute__((always_inline)) { return x * z; });
}

RLX_SIMD f32x16 load_as(DType d, const void* p, std::int64_t i, int n) {
  if (d == DType::f32) {
    const auto* f = static_cast<const float*>(p) + i;
    return n == 16 ? load(f) : load_partial(f, n);
  }
  const auto* h = static_cast<const std::uint16_t*>(p) + i;
  if (d == DType::f16) return n == 16 ? load_f16(h) : load_f16_partial(h, n);
  return n == 16 ? load_bf16(h) : load_bf16_partial(h, n);
}
RLX_SIMD void store_as(DType d, void* p, std::int64_t i, f32x16 v, int n) {
  if (d == DType::f32) {
    auto* f = static_cast<float*>(p) + i;
    return n == 16 ? store(f, v) : store_partial(f, v, n);
  }
  auto* h = static_cast<std::uint16_t*>(p) + i;
  if (d == DType::f16) return n == 16 ? store_f16(h, v) : store_f16_partial(h, v, n);
  return n == 16 ? store_bf16(h, v) : store_bf16_partial(h, v, n);
}
void cast_run(DType from, const void* x, DType to, void* y, Range r) {
  for (std::int64_t i = r.begin; i < r.end; i += 16) {
    const int n = r.end - i < 16 ? static_cast<int>(r.end - i) : 16;
    store_as(to, y, i, load_as(from, x, i, n), n);
  }
}
// x, y: any shape
void cast(const Cast&, const KernelArgs& a) noexcept {
  const TensorView &x = a.in[0], &y = a.out[0];
  if (contiguous(x, x.dtype == DType::f32 ? 4 : 2) && contiguous(y, y.dtype == DType::f32 ? 4 : 2))
    return cast_run(x.dtype, x.data, y.dtype, y.data, part(a, elements(x), 16));
  const Rows from(x), to(y);
  const Range mine = part(a, from.count);
  for (std::int64_t r = mine.begin; r < mine.end; ++r)
    cast_run(x.dtype, from.row<const float>(r), y.dtype, to.row<float>(r), {0, from.n});
}

constexpr Isa kIsa = Isa::RLX_ISA_LEVEL;
constexpr Kernel kTable[] = {
    kernel<Add, add>(RLX_ROW_NAME("add_f32"), kIsa, accepts_elementwise),
    kernel<Mul, mul>(RLX_ROW_NAME("mul_f32"), kIsa, accepts_elementwise),
    kernel<Activation, activation>(RLX_ROW_NAME("activation_f32"), kIsa, accepts_elementwise),
    kernel<Scale, scale>(RLX_ROW_NAME("scale_f32"), kIsa, accepts_elementwise),
    kernel<Softcap, softcap_op>(RLX_ROW_NAME("softcap_f32"), kIsa, accepts_elementwise),
    kernel<Cast, cast>(RLX_ROW_NAME("cast"), kIsa, accepts_cast),
};

}  // namespace

KernelTable elementwise_kernels() { return {kTable, sizeof(kTable) / sizeof(kTable[0])}; }

}  // namespace rlx::cpu::RLX_ISA_LEVEL
#endif
