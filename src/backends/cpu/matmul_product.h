// A product in the form that the driver runs (matmul_drive.simd.cpp), for the kernels that make one
// out of their operands: Linear, GatedLinear, and those of experts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/kernel_args.h"
#include "ops/activation.h"

namespace rlx::cpu::RLX_ISA_LEVEL {

/// Rows [rows, n] of a tensor, whatever its rank. With `index` row r lies at place index[r].
struct Rows {
  std::byte* data = nullptr;
  std::int64_t count = 1, stride = 0;
  const std::int32_t* index = nullptr;
  std::byte* at(std::int64_t r) const { return data + (index ? index[r] : r) * stride; }
};
/// All rows of a view whose leading axes lie one in the other without gaps.
Rows rows_of(const TensorView& v);

struct Product {
  DType x_type, w_type;
  Rows x, y, residual;  ///< x without index
  std::int64_t k, n;
  const std::byte* w[2];  ///< the weight, or gate and up
  int weights;
  const float* bias;
  Act act;
  int thread, threads;
  std::byte* scratch;  ///< matmul_scratch(...).total() bytes
};

/// Panels begin..end-1 of the product, all tokens: the part of the calling worker.
void run_panels(const Product& p, std::int64_t begin, std::int64_t end);

}  // namespace rlx::cpu::RLX_ISA_LEVEL
