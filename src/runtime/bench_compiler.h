// Speed of the compiler itself, on a decoder without a checkpoint (runtime/synthetic_decoder.h).
#pragma once

#include <cstdint>

#include "device/device.h"
#include "runtime/bench_aot.h"

namespace rlx {

struct CompilerBenchOptions {
  std::int64_t layers = 32;
  std::int64_t repetitions = 20;  ///< of what takes milliseconds; what takes less is repeated in proportion
  Device device = Device::cpu();
  std::int64_t aot_mib = 1024;  ///< of the artefact that is started from; 0: none
};

/// Medians over wall time, of one thread; `_cpu` is the processor's time in the same repetitions, which a busy machine
/// does not lengthen. Times of building, binding and finding executables are those of ModelCompilePipeline, so
/// they hold everything that a user of it waits for.
struct CompilerBench {
  double hir_ms = 0;       ///< the flow alone
  double template_ms = 0;  ///< build_template on an empty pipeline: flow, keys, passes with verifier, lowering
  double template_cpu_ms = 0, specialize_cpu_us = 0;
  double place_us = 0;     ///< the plan of a new size alone
  double specialize_us = 0;  ///< get_or_compile with a new size: plan, manifest, executable
  double hit_us = 0;         ///< get_or_compile with a size that is there
  double variant_key_us = 0, component_key_us = 0, executable_key_us = 0;
  double verify_us = 0;         ///< per 100 nodes of MIR
  double arena_over_bound = 0;  ///< the worst of several sizes, of the model with rows of full width
  std::int64_t nodes = 0, calls = 0;  ///< of MIR and LIR
  AotBench aot;
  std::int64_t weight_bytes_copied = 0;  ///< by building HIR and specialising: widened params, and stored bytes read

  double key_us() const;  ///< the slowest of the keys
};

/// Errors: invalid_argument (layers or repetitions below 1), device, memory.
CompilerBench bench_compiler(const CompilerBenchOptions& options);

}  // namespace rlx
