// How much faster the rows of the kernel table are than the references of their ops.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "device/kernel.h"

namespace rlx {

/// A row, timed on a sample that its op's samples were grown to.
struct KernelBench {
  std::string kernel, op;
  Isa isa = Isa::baseline;
  std::string sample;         ///< "f32[64, 576] f32[576] eps=1e-05"
  double kernel_us = 0;       ///< median
  double reference_us = 0;    ///< median of the interpreter on the op's reference or body, which one thread runs
  double factor = 0;          ///< median of the ratios, pair by pair
  std::string reason;         ///< why the factor is below 2; empty when it is not
};

struct KernelBenchOptions {
  std::vector<std::string> ops;  ///< their rows alone; empty: all rows
  int threads = 1;               ///< of the kernels
  std::function<void(const KernelBench&)> on_row;  ///< called as each is ready; may be empty
  std::function<bool()> cancelled;                 ///< asked between rows; may be empty
};

/// The rows that this machine runs at its level (RLX_ISA), in the order of the table. Errors: usage (an op
/// without such a row), invalid_argument (threads), device, memory.
std::vector<KernelBench> bench_kernels(const KernelBenchOptions& options);

/// "avx512_bf16".
std::string_view isa_name(Isa isa);

}  // namespace rlx
