// Pooling: rows of the result, tap by tap of the window.
#if !defined(RLX_ISA_avx512_bf16)  // that level has nothing here that avx512 lacks
#include "backends/cpu/conv.h"

#include "backends/cpu/simd.h"
#include "backends/cpu/window_rows.h"
#include "ops/pool.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

/// How many taps of window p of an axis lie below `limit` and not below `least`.
std::int64_t taps_within(const WindowPlan& w, int axis, std::int64_t p, std::int64_t least, std::int64_t limit) {
  const std::int64_t from = p * w.stride[axis] - w.begin[axis], step = w.dilation[axis];
  const std::int64_t first = ceil_of(least - from, step), end = ceil_of(limit - from, step),
                     last = end < w.kernel[axis] ? end : w.kernel[axis];
  return last > first ? last - first : 0;
}

std::int64_t counted(const Pool& op, const WindowPlan& w, int axis, std::int64_t p) {
  return op.count_pads ? taps_within(w, axis, p, -w.begin[axis], w.in[axis] + w.end[axis])
                       : taps_within(w, axis, p, 0, w.in[axis]);
}

// x, y: f32 [batch, channels, spatial...].
void pool(const Pool& op, const KernelArgs& a) noexcept {
  const Volume x(a.in[0]), y(a.out[0]);
  std::int64_t kernel[3] = {};
  for (int i = 0; i < op.kernel.size(); ++i) kernel[i] = op.kernel[i];
  const WindowPlan w = window_plan(a.in[0], a.out[0], kernel, op.window());
  const std::int64_t channels = a.in[0].dims[1], planes = w.out[0] * w.out[1];
  const bool max_kind = op.kind == PoolKind::max;
  const Range mine = part(a, a.in[0].dims[0] * channels * planes);
  for (std::int64_t r = mine.begin; r < mine.end; ++r) {
    const std::int64_t at[4] = {r / planes / channels, r / planes % channels, r % planes / w.out[1], r % w.out[1]};
    float* out = y.row(at[0], at[1], at[2], at[3]);
    const float start = max_kind ? -__builtin_inff() : 0.0f;
    for (std::int64_t p = 0; p < w.out[2]; ++p) out[p] = start;
    each_tap(w, x, at, [&](std::int64_t, const float* in, Range p) {
      if (max_kind)
        update_row(out + p.begin, in, w.stride[2], p.end - p.begin,
                   [](f32x16 most, f32x16 v) { return max_nan(v, most); });
      else
        update_row(out + p.begin, in, w.stride[2], p.end - p.begin, [](f32x16 sum, f32x16 v) { return sum + v; });
    });
    if (max_kind) continue;
    const std::int64_t lines = counted(op, w, 0, at[2]) * counted(op, w, 1, at[3]);
    for (std::int64_t p = 0; p < w.out[2]; ++p) {
      const std::int64_t n = lines * counted(op, w, 2, p);
      out[p] = n == 0 ? 0.0f : out[p] / static_cast<float>(n);
    }
  }
}

bool accepts_pool(const KernelQuery& q) { return q.in[0].dtype == DType::f32; }

constexpr Kernel kTable[] = {
    kernel<Pool, pool>(RLX_ROW_NAME("pool_f32"), Isa::RLX_ISA_LEVEL, accepts_pool),
};

}  // namespace

KernelTable pool_kernels() { return {kTable, sizeof(kTable) / sizeof(kTable[0])}; }

}  // namespace rlx::cpu::RLX_ISA_LEVEL
#endif
