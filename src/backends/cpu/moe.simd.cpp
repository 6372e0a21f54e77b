// The weighted sum of the results of experts.
#if !defined(RLX_ISA_avx512_bf16)  // that level has nothing here that avx512 lacks
#include "backends/cpu/moe.h"

#include "backends/cpu/simd.h"
#include "backends/cpu/work.h"
#include "ops/moe.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

// x: f32 [rows, slots, n]; weights: f32 [rows, slots]; y: f32 [rows, n]. Threads share the lines of
// 16 columns of all rows, so that a single row is divided too.
void expert_sum(const ExpertSum&, const KernelArgs& a) noexcept {
  const TensorView &x = a.in[0], &weights = a.in[1], &y = a.out[0];
  const std::int64_t slots = x.dims[1], n = x.dims[2], lines = (n + kLanes - 1) / kLanes;
  const Range mine = part(a, x.dims[0] * lines);
  for (std::int64_t i = mine.begin; i < mine.end; ++i) {
    const std::int64_t r = i / lines, column = i % lines * kLanes;
    const int lanes = static_cast<int>(n - column < kLanes ? n - column : kLanes);
    const auto* w = at<const float>(weights, r * weights.strides[0]);
    f32x16 sum = zero_f32();
    for (std::int64_t s = 0; s < slots; ++s) {
      const auto* row = at<const float>(x, r * x.strides[0] + s * x.strides[1]) + column;
      sum = fma(set1(w[s]), lanes == kLanes ? load(row) : load_partial(row, lanes), sum);
    }
    auto* out = at<float>(y, r * y.strides[0]) + column;
    if (lanes == kLanes)
      store(out, sum);
    else
      store_partial(out, sum, lanes);
  }
}

bool accepts_sum(const KernelQuery& q) {
  return q.in.size() == 2 && q.in[0].dtype == DType::f32 && q.in[0].layout == Layout::plain &&
         q.in[1].dtype == DType::f32;
}

constexpr Kernel kTable[] = {
    kernel<ExpertSum, expert_sum>(RLX_ROW_NAME("expert_sum_f32"), Isa::RLX_ISA_LEVEL, accepts_sum),
};

}  // namespace

KernelTable moe_kernels() { return {kTable, sizeof(kTable) / sizeof(kTable[0])}; }

}  // namespace rlx::cpu::RLX_ISA_LEVEL
#endif
