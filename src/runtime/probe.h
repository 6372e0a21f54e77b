// What the machine can do right now, measured in this process: the figures that speeds are ratios
// of (kernels.md, 1.2 and 1.3).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/workers.h"

namespace rlx {

/// The units that a product can keep busy; each has a rate of its own.
enum class ComputeUnit : std::uint8_t { int8, bf16, f32, amx };
constexpr int kComputeUnits = 4;
std::string_view name(ComputeUnit unit);

struct ProbeResult {
  double gbps = 0;  ///< 10^9 bytes read from memory a second: four streams a thread over a buffer
                    ///< larger than the caches, in huge pages where the kernel gives them
  /// 10^9 operations a second (a multiply-add is two), operands in registers, best instructions of the level. bf16 is
  /// f32 where the level has no such unit, since products of bf16 weights run there as f32.
  double gops = 0;  ///< int8
  double bf16_gflops = 0, f32_gflops = 0;
  double amx_gflops = 0;  ///< bf16 on tile registers; bf16_gflops where the level has none

  double rate(ComputeUnit unit) const;
};

/// Takes about a fifth of a second and 256 MiB, or what a quarter of the free memory allows.
/// Errors: memory.
ProbeResult probe(Workers& workers);
/// Field by field.
ProbeResult mean(const ProbeResult& a, const ProbeResult& b);

}  // namespace rlx
