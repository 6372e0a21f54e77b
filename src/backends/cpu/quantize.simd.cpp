// Activations in int8 groups of 32 (ops/quant.h).
#include "backends/cpu/norm.h"
#include "backends/cpu/norm_run.h"
#include "backends/cpu/simd.h"
#include "backends/cpu/table.h"
#include "backends/cpu/work.h"
#include "ops/quant.h"

#if !defined(RLX_ISA_avx512_bf16)  // that level has nothing here that avx512 lacks
namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

// x: f32 [rows, n]; y: xq8 [rows, n]. Threads share the groups of all rows, so that a single row is divided too.
void quantize_rows(const QuantizeRows&, const KernelArgs& a) noexcept {
  const Rows x(a.in[0]), y(a.out[0]);
  const std::int64_t n = x.n, groups = n / 32;
  const Range mine = part(a, x.count * groups);
  for (std::int64_t i = mine.begin; i < mine.end; ++i) {
    const std::int64_t row = i / groups, g = i % groups;
    const auto* in = x.row<const float>(row) + g * 32;
    Int8Row(y.row<std::byte>(row), n).put(g, load(in), load(in + 16));
  }
}

constexpr Kernel kTable[] = {
    kernel<QuantizeRows, quantize_rows>(RLX_ROW_NAME("quantize_rows_f32_xq8"), Isa::RLX_ISA_LEVEL,
        accepts_quantize_rows),
};

}  // namespace

KernelTable quantize_kernels() { return {kTable, sizeof(kTable) / sizeof(kTable[0])}; }

}  // namespace rlx::cpu::RLX_ISA_LEVEL
#endif
