// RMS norm, alone and with the quantisation of its result.
#include "backends/cpu/norm.h"

#include "backends/cpu/norm_run.h"
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

// x: [rows, n]; weight: [n]; y: xq8 [rows, n].
void rms_norm_quantize(const RmsNormQuantize& op, const KernelArgs& a) noexcept {
  const Rows x(a.in[0]), y(a.out[0]);
  const auto* w = static_cast<const float*>(a.in[1].data);
  const Range mine = part(a, x.count);
  for (std::int64_t r = mine.begin; r < mine.end; ++r)
    norm_quantize_run(x.row<const float>(r), w, y.row<std::byte>(r), x.n, op.eps, op.weight_offset);
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
