// Products of plain f32 matrices, and of stored weights from their other side (ops/product.h, ops/matmul.h,
// ops/weight_product.h).
#pragma once

#include "device/kernel.h"

namespace rlx::cpu {

bool accepts_batched_matmul(const KernelQuery&);  ///< both operands and the result plain f32
bool accepts_plain_linear(const KernelQuery&);    ///< x and w plain f32
bool accepts_linear_transposed(const KernelQuery&);

ScratchNeed scratch_batched_matmul(const ScratchQuery&);
ScratchNeed scratch_plain_linear(const ScratchQuery&);
ScratchNeed scratch_linear_transposed(const ScratchQuery&);

/// Values of one strip of a product's right side: [k, 16] floats.
inline constexpr int kStrip = 16;
/// Rows of a weight that are decoded at a time.
inline constexpr int kDecodedRows = 32;

/// The columns of a weight's rows that one worker decodes: whole blocks.
struct ColumnPart {
  std::int64_t begin, end;
};
ColumnPart column_part(DType weight, std::int64_t k, int thread, int threads);

/// Columns begin .. end of one row of a weight of any storage type, as floats.
void decode_columns(DType weight, const std::byte* row, ColumnPart columns, float* out);

}  // namespace rlx::cpu
