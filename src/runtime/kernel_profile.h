// Where the time of steps goes, by kernel (rlx bench --profile).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/backend.h"
#include "device/program.h"
#include "runtime/executor.h"
#include "runtime/probe.h"

namespace rlx {

/// Calls of one kernel together: times of thread 0, and what they moved and computed by the estimate of
/// compiler/cost.h.
struct KernelTime {
  std::string kernel;  ///< its row's name, or "reference OP"
  std::int64_t calls = 0;
  double us = 0, wait_us = 0;  ///< Executor::CallTime
  double bytes = 0, ops = 0;
  ComputeUnit unit = ComputeUnit::f32;
};

/// The unit that a call's products run on: by the dtype that its first operand has, or is converted to inside; of
/// attention by the cache's.
ComputeUnit unit_of(const Program& program, const Call& call);

/// What one step must read from memory and compute: weights as they are packed, tokens of the cache, and the operations
/// of products with weights on each unit.
struct StepWork {
  double bytes = 0;
  double ops[kComputeUnits] = {};
  StepWork& operator+=(const StepWork& o);
};
/// `context`: tokens that all sequences of the step hold together.
StepWork step_work(const Program& program, const Backend& backend, const DimBinding& sizes, std::int64_t context);

/// Adds the calls of an executor of `program`, whose sequences hold `context` tokens, to the list: a kernel has one
/// entry for each unit.
void add_kernel_times(std::vector<KernelTime>& list, const Program& program, const Executor& executor,
                      std::int64_t context);

}  // namespace rlx
