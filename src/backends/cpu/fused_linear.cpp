#include "backends/cpu/fused_linear.h"

#include <algorithm>

#include "backends/cpu/matmul_amx.h"
#include "ops/fused.h"

namespace rlx::cpu {
namespace {

const FusedLinear& fused_op(const void* op) { return *static_cast<const FusedLinear*>(op); }

// The dtype that the products read.
DType fused_input(const FusedLinear& op, DType x) { return op.to != DType::f32 ? op.to : x; }

bool has_panel_kernel(DType x, DType w) {
  if (x == DType::xq8) return panel_info(w).group != 0;
  return x == DType::f32 || (x == DType::bf16 && w == DType::bf16);
}

bool accepts_fused(const KernelQuery& q) {
  const FusedLinear& op = fused_op(q.op);
  const DType x = fused_input(op, q.in[0].dtype);
  for (int i = 1; i <= op.weights; ++i) {
    const Shape& w = q.in[static_cast<std::size_t>(i)];
    if (w.layout != Layout::p16 || w.rank() != 2 || !has_panel_kernel(x, w.dtype)) return false;
  }
  return q.in[0].layout == Layout::plain;
}
bool accepts_fused_bf16(const KernelQuery& q) {
  return fused_input(fused_op(q.op), q.in[0].dtype) == DType::bf16 && accepts_fused(q);
}

std::int64_t rows_of_input(const ScratchQuery& q) {
  std::int64_t rows = 1;
  for (int i = 0; i + 1 < q.in[0].rank; ++i) rows *= q.in[0].dims[i];
  return rows;
}

ScratchNeed fused_scratch(const ScratchQuery& q) {
  const FusedLinear& op = fused_op(q.op);
  const DType x = fused_input(op, q.in[0].dtype);
  const std::int64_t k = q.in[1].dims[1];
  ScratchNeed need;
  for (int i = 1; i <= op.weights; ++i)
    need.per_worker = std::max(need.per_worker, matmul_scratch(x, q.in[i].dtype, k, op.gated ? 2 : 1).total());
  const std::int64_t rows = rows_of_input(q);
  if (rows > kOwnRows) need.shared = need.shared_zeroed = kFusedCounters;
  if (!op.prologue()) return need;
  need.per_worker += fused_rows_scratch(x, k);
  if (rows > kOwnRows) {
    need.shared = fused_shared_bytes(x, k, rows);
    for (int i = 0; i < op.products(); ++i) need.shared += fused_ready_bytes(x, q.in[1 + i].dtype, k, rows);
  }
  return need;
}

#if defined(__x86_64__)
// An activation from one product to the next as the tiles read it, which no f32 work may stand between (`plain_only`):
// strips of 32 rows of bf16 in the place of the f32 rows. 16 rows and more fit there, fewer stay f32.
bool amx_strips(const Shape& s, bool plain_only) {
  return !plain_only && s.rank() == 2 && s.dtype == DType::f32 && s.dim(1).constant().value_or(1) % kBlock == 0;
}
// Tiles take pairs of bf16 made from the input and from panels of any type.
bool accepts_amx(const KernelQuery& q) {
  const FusedLinear& op = fused_op(q.op);
  if (!op.prologue() || op.to == DType::f32) return false;
  if (q.in[0].layout != Layout::plain && !amx_strips(q.in[0], op.norm)) return false;
  for (const Shape& y : q.out)
    if (y.layout != Layout::plain && !amx_strips(y, !op.gated)) return false;
  for (int i = 1; i <= op.weights; ++i) {
    const Shape& w = q.in[static_cast<std::size_t>(i)];
    if (w.layout != Layout::p16 || w.rank() != 2 || w.dim(1).constant().value_or(1) % kBlock != 0) return false;
    if (!has_panel_kernel(fused_input(op, q.in[0].dtype), w.dtype)) return false;  // the vector units take few rows
  }
  return true;
}
ScratchNeed amx_scratch_need(const ScratchQuery& q) {
  const std::int64_t k = q.in[1].dims[1], rows = rows_of_input(q);
  ScratchNeed need = fused_scratch(q);  // of few rows, which the vector units take
  need.per_worker = std::max(need.per_worker, kAmxScratch);
  if (rows > kOwnRows) need.shared = std::max(need.shared, kFusedCounters + up64(amx_rows_bytes(rows, k)));
  return need;
}
#endif

}  // namespace

#define RLX_FUSED_TABLE(level, accepts)                                                                             \
  KernelTable level::fused_kernels() {                                                                              \
    static constexpr Kernel row{"fused_linear_" #level, FusedLinear::name, Isa::level, accepts, level::fused_linear, \
                                fused_scratch};                                                                     \
    return {&row, 1};                                                                                               \
  }

RLX_FUSED_TABLE(baseline, accepts_fused)
#if defined(__x86_64__)
RLX_FUSED_TABLE(avx2, accepts_fused)
RLX_FUSED_TABLE(avx512, accepts_fused)
RLX_FUSED_TABLE(avx512_bf16, accepts_fused_bf16)

KernelTable avx512_bf16::amx_kernels() {
  static constexpr Kernel row{"fused_linear_amx", FusedLinear::name, Isa::amx, accepts_amx,
                              avx512_bf16::fused_linear_amx, amx_scratch_need};
  return {&row, 1};
}
#endif

}  // namespace rlx::cpu
