// RMS norm, alone and with the quantisation of its result.
#include "backends/cpu/norm.h"

#include "backends/cpu/norm_run.h"
#include "backends/cpu/quantize_group.h"
#include "backends/cpu/simd.h"
#include "backends/cpu/table.h"
#include "backends/cpu/work.h"
#include "ops/norm.h"

#if !defined(RLX_ISA_avx512_bf16)  // that level has nothing here that avx512 lacks
namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

// x, y: [..., n]; weight: [g]
void rms_norm(const RmsNorm& op, const KernelArgs& a) noexcept {
  const Rows x(a.in[0]), y(a.out[0]);
  const auto* weight = static_cast<const float*>(a.in[1].data);
  const std::int64_t g = op.group > 0 ? op.group : x.n;
  if (g <= 0) return;
  const std::int64_t groups = x.n / g;
  const Range mine = part(a, x.count * groups);
  for (std::int64_t i = mine.begin; i < mine.end; ++i) {
    const std::int64_t row = i / groups, at_lane = i % groups * g;
    norm_run(x.row<const float>(row) + at_lane, weight, y.row<float>(row) + at_lane, g, op.eps, op.weight_offset);
  }
}

// x: [rows, n]; weight: [n]; y: xq8 [rows, n]. The groups' scales are written before 1/rms is known
// and multiplied at the end.
void rms_norm_quantize(const RmsNormQuantize& op, const KernelArgs& a) noexcept {
  const Rows x(a.in[0]), y(a.out[0]);
  const auto* w = static_cast<const float*>(a.in[1].data);
  const std::int64_t n = x.n;
  const f32x16 offset = set1(op.weight_offset);
  const Range mine = part(a, x.count);
  for (std::int64_t r = mine.begin; r < mine.end; ++r) {
    const auto* in = x.row<const float>(r);
    auto* q = y.row<signed char>(r);
    auto* d = reinterpret_cast<float*>(q + n);
    auto* sums = reinterpret_cast<std::int32_t*>(d + n / 32);
    float squares = 0;
    for (std::int64_t i = 0; i < n; i += 32) {
      const f32x16 lo = load(in + i), hi = load(in + i + 16);
      squares += sum(lo * lo);
      squares += sum(hi * hi);
      const Group32 g = quantize_group(lo * (load(w + i) + offset), hi * (load(w + i + 16) + offset));
      store_s8(q + i, g.a);
      store_s8(q + i + 16, g.b);
      d[i / 32] = g.d;
      sums[i / 16] = sum(g.a);
      sums[i / 16 + 1] = sum(g.b);
    }
    const float scale = inverse_rms(squares, n, op.eps);
    for (std::int64_t i = 0; i < n / 32; ++i) d[i] *= scale;
  }
}

constexpr Kernel kTable[] = {
    kernel<RmsNorm, rms_norm>(RLX_ROW_NAME("rms_norm_f32"), Isa::RLX_ISA_LEVEL, accepts_rms_norm),
    kernel<RmsNormQuantize, rms_norm_quantize>(RLX_ROW_NAME("rms_norm_quantize_f32_xq8"), Isa::RLX_ISA_LEVEL,
                                               accepts_rms_norm_quantize),
};

}  // namespace

KernelTable norm_kernels() { return {kTable, sizeof(kTable) / sizeof(kTable[0])}; }

}  // namespace rlx::cpu::RLX_ISA_LEVEL
#endif
