// Products grouped by expert (ops/moe.h): the sizes that kernels and table share.
#pragma once

#include "backends/cpu/matmul_plan.h"
#include "backends/cpu/table.h"
#include "ir/kernel_args.h"

namespace rlx::cpu {
namespace {

// Bytes of a row of tokens of k values.
constexpr std::int64_t token_bytes(DType x, std::int64_t k) {
  return x == DType::xq8 ? k / 32 * 44 : x == DType::f32 ? k * 4 : k * 2;
}

// The parts of a worker's scratch: that of a product, the rows of an expert one after the other, and
// the pairs (row, slot) sorted by expert.
struct ExpertScratch {
  std::int64_t product = 0, rows = 0, starts = 0, order = 0;
  constexpr std::int64_t total() const { return product + rows + starts + order; }
};

constexpr ExpertScratch expert_scratch(const TensorView* in, int weights) {
  const TensorView &x = in[0], &ids = in[1], &w = in[2];
  const std::int64_t k = w.dims[2], pairs = ids.dims[0] * ids.dims[1];
  ExpertScratch s;
  s.product = up64(matmul_scratch(x.dtype, w.dtype, k, weights).total());
  s.rows = up64(kChunkTokens * token_bytes(x.dtype, k));
  s.starts = up64(4 * (w.dims[0] + 1));
  s.order = up64(4 * pairs);
  return s;
}

}  // namespace

#define RLX_EXPERTS_LEVEL(level)                                          \
  namespace level {                                                       \
  void expert_linear(const void* op, const KernelArgs& a) noexcept;       \
  void expert_gated_linear(const void* op, const KernelArgs& a) noexcept; \
  KernelTable expert_kernels();                                           \
  }
RLX_EXPERTS_LEVEL(baseline)
RLX_EXPERTS_LEVEL(avx2)
RLX_EXPERTS_LEVEL(avx512)
RLX_EXPERTS_LEVEL(avx512_bf16)
#undef RLX_EXPERTS_LEVEL

}  // namespace rlx::cpu
