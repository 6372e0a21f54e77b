#include "backends/cpu/product.h"

#include <algorithm>
#include <numeric>

#include "ops/product.h"
#include "tensor/quant/codec.h"

namespace rlx::cpu {
namespace {

bool plain(const Shape& s) { return s.kind == ShapeKind::tensor && s.layout == Layout::plain; }
bool plain_f32(const Shape& s) { return plain(s) && s.dtype == DType::f32; }

ScratchNeed strip(std::int64_t k) { return {k * kStrip * 4, 0, 0}; }

// Columns are dealt in steps of whole blocks and whole vectors.
std::int64_t column_step(DType weight) { return std::lcm(std::int64_t{info(weight).block_elements}, std::int64_t{16}); }

}  // namespace

bool accepts_batched_matmul(const KernelQuery& q) {
  return std::all_of(q.in.begin(), q.in.end(), plain_f32) && plain_f32(q.out[0]);
}
bool accepts_plain_linear(const KernelQuery& q) { return accepts_batched_matmul(q); }
bool accepts_linear_transposed(const KernelQuery& q) {
  return plain_f32(q.in[0]) && plain(q.in[1]) && decoder(q.in[1].dtype) != nullptr && plain_f32(q.out[0]);
}

ScratchNeed scratch_batched_matmul(const ScratchQuery& q) {
  const auto& op = *static_cast<const BatchedMatmul*>(q.op);
  return strip(q.in[0].dims[q.in[0].rank - (op.transpose_a ? 2 : 1)]);
}
ScratchNeed scratch_plain_linear(const ScratchQuery& q) { return strip(q.in[1].dims[1]); }
ScratchNeed scratch_linear_transposed(const ScratchQuery& q) {
  return {kDecodedRows * ((q.in[1].dims[1] + 15) / 16 * 16) * 4, 0, 0};
}

ColumnPart column_part(DType weight, std::int64_t k, int thread, int threads) {
  const std::int64_t step = column_step(weight), steps = (k + step - 1) / step;
  return {std::min(k, steps * thread / threads * step), std::min(k, steps * (thread + 1) / threads * step)};
}

void decode_columns(DType weight, const std::byte* row, ColumnPart columns, float* out) {
  const DTypeInfo& type = info(weight);
  decoder(weight)(row + columns.begin / type.block_elements * type.block_bytes, out, columns.end - columns.begin);
}

}  // namespace rlx::cpu
