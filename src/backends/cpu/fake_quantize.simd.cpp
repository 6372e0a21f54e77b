// Values as integers of a scale would give them (ops/quant.h); each step as the op defines it, so equal to the bit.
#if !defined(RLX_ISA_avx512_bf16)  // that level has nothing here that avx512 lacks
#include "backends/cpu/conv.h"
#include "backends/cpu/simd.h"
#include "backends/cpu/work.h"
#include "ops/quant.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

RLX_SIMD f32x16 fake(f32x16 x, f32x16 scale, f32x16 zero, const FakeQuantize& op) {
  f32x16 q = round_even(x / scale) + zero;
  q = max(set1(static_cast<float>(op.low)), q);  // a NaN stays: max and min give their second operand
  q = min(set1(static_cast<float>(op.high)), q);
  return (q - zero) * scale;
}

// Rows of x; along a row the channel is one, or the column.
void fake_quantize(const FakeQuantize& op, const KernelArgs& a) noexcept {
  const Rows x(a.in[0]), y(a.out[0]);
  const auto* scales = static_cast<const float*>(a.in[1].data);
  const auto* zeros = op.asymmetric ? static_cast<const std::int32_t*>(a.in[2].data) : nullptr;
  const int rank = a.in[0].rank, axis = op.axis < 0 ? op.axis + rank : op.axis;
  const bool along = op.per_channel && axis == rank - 1;
  std::int64_t inner = 1;  // rows to the next channel
  for (int i = axis + 1; i + 1 < rank; ++i) inner *= a.in[0].dims[i];
  const Range mine = part(a, x.count);
  for (std::int64_t r = mine.begin; r < mine.end; ++r) {
    const std::int64_t channel = op.per_channel && !along ? r / inner % a.in[0].dims[axis] : 0;
    const auto* from = x.row<const float>(r);
    auto* to = y.row<float>(r);
    f32x16 scale = set1(scales[channel]), zero = set1(zeros == nullptr ? 0.0f : static_cast<float>(zeros[channel]));
    for (std::int64_t c = 0; c < x.n; c += kLanes) {
      const int lanes = static_cast<int>(x.n - c < kLanes ? x.n - c : kLanes);
      if (along) {
        scale = load_partial(scales + c, lanes);
        alignas(64) float z[kLanes] = {};
        for (int i = 0; zeros != nullptr && i < lanes; ++i) z[i] = static_cast<float>(zeros[c + i]);
        zero = load(z);
      }
      if (lanes == kLanes)
        store(to + c, fake(load(from + c), scale, zero, op));
      else
        store_partial(to + c, fake(load_partial(from + c, lanes), scale, zero, op), lanes);
    }
  }
}

bool accepts_fake(const KernelQuery& q) { return q.in[0].dtype == DType::f32; }

constexpr Kernel kTable[] = {
    kernel<FakeQuantize, fake_quantize>(RLX_ROW_NAME("fake_quantize_f32"), Isa::RLX_ISA_LEVEL, accepts_fake),
};

}  // namespace

KernelTable fake_quantize_kernels() { return {kTable, sizeof(kTable) / sizeof(kTable[0])}; }

}  // namespace rlx::cpu::RLX_ISA_LEVEL
#endif
