// Layer norm and softmax of rows, and functions of one value. Sums are one partial per 16 values, added in increasing
// order, so that the bits of a row depend on that row alone.
#include "backends/cpu/reduction.h"

#include "backends/cpu/simd.h"
#include "backends/cpu/simd_math.h"
#include "backends/cpu/table.h"
#include "backends/cpu/work.h"
#include "ops/arithmetic.h"
#include "ops/reduction.h"

#if !defined(RLX_ISA_avx512_bf16)  // that level has nothing here that avx512 lacks
namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

/// Calls f(i, width) for the runs of up to 16 lanes of n values.
template <typename F>
RLX_SIMD void each_run(std::int64_t n, F f) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) f(i, 16);
  if (i < n) f(i, static_cast<int>(n - i));
}
RLX_SIMD f32x16 load_run(const float* p, int width) { return width == 16 ? load(p) : load_partial(p, width); }
RLX_SIMD void store_run(float* p, f32x16 v, int width) {
  if (width == 16)
    store(p, v);
  else
    store_partial(p, v, width);
}

/// The mean first and the deviations from it then: no difference of large sums.
inline void layer_norm_row(const float* x, const float* weight, const float* bias, float* y, std::int64_t n,
                           float eps) noexcept {
  float total = 0, squares = 0;
  each_run(
      n, [&](std::int64_t i, int width) __attribute__((always_inline)) { total += sum(load_run(x + i, width)); });
  const f32x16 mean = set1(total / static_cast<float>(n));
  each_run(
      n, [&](std::int64_t i, int width) __attribute__((always_inline)) {
        const f32x16 d = select(first_lanes(width), load_run(x + i, width) - mean, zero_f32());
        squares += sum(d * d);
      });
  const f32x16 factor = set1(1.0f / __builtin_sqrtf(squares / static_cast<float>(n) + eps));
  each_run(
      n, [&](std::int64_t i, int width) __attribute__((always_inline)) {
        f32x16 v = (load_run(x + i, width) - mean) * factor * load_run(weight + i, width);
        if (bias != nullptr) v = v + load_run(bias + i, width);
        store_run(y + i, v, width);
      });
}

// x, y: [..., n]; weight, bias: [n]
void layer_norm(const LayerNorm& op, const KernelArgs& a) noexcept {
  const Rows x(a.in[0]), y(a.out[0]);
  const auto* weight = static_cast<const float*>(a.in[1].data);
  const auto* bias = op.bias ? static_cast<const float*>(a.in[2].data) : nullptr;
  const Range mine = part(a, x.n > 0 ? x.count : 0);
  for (std::int64_t r = mine.begin; r < mine.end; ++r)
    layer_norm_row(x.row<const float>(r), weight, bias, y.row<float>(r), x.n, op.eps);
}

inline void softmax_row(const float* x, float* y, std::int64_t n) noexcept {
  f32x16 top = set1(-__builtin_inff());
  each_run(
      n, [&](std::int64_t i, int width) __attribute__((always_inline)) {
        const f32x16 v = select(first_lanes(width), load_run(x + i, width), set1(-__builtin_inff()));
        top = max_nan(top, v);
      });
  const bool bad = any(is_nan(top));
  const f32x16 largest = set1(bad ? __builtin_nanf("") : max_lane(top));
  float total = 0;
  each_run(
      n, [&](std::int64_t i, int width) __attribute__((always_inline)) {
        const f32x16 e = exp(load_run(x + i, width) - largest);
        total += sum(select(first_lanes(width), e, zero_f32()));
        store_run(y + i, e, width);
      });
  each_run(
      n, [&](std::int64_t i, int width)
             __attribute__((always_inline)) { store_run(y + i, load_run(y + i, width) / set1(total), width); });
}

// x, y: [..., n]
void softmax(const Softmax&, const KernelArgs& a) noexcept {
  const Rows x(a.in[0]), y(a.out[0]);
  const Range mine = part(a, x.count);
  for (std::int64_t r = mine.begin; r < mine.end; ++r) softmax_row(x.row<const float>(r), y.row<float>(r), x.n);
}

constexpr Kernel kTable[] = {
    kernel<LayerNorm, layer_norm>(RLX_ROW_NAME("layer_norm_f32"), Isa::RLX_ISA_LEVEL, accepts_layer_norm),
    kernel<Softmax, softmax>(RLX_ROW_NAME("softmax_f32"), Isa::RLX_ISA_LEVEL, accepts_softmax),
};

}  // namespace

KernelTable reduction_kernels() { return {kTable, sizeof(kTable) / sizeof(kTable[0])}; }

}  // namespace rlx::cpu::RLX_ISA_LEVEL
#endif
