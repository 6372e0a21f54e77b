#include "runtime/step_memory.h"

#include <algorithm>

#include "base/checked.h"

namespace rlx {

void StepMemory::fit(const Plan& plan) {
  constexpr std::int64_t kLeast = 64;  // so that addresses are never null
  constexpr std::int64_t kPage = 4096;
  if (const std::int64_t need = std::max(plan.arena_bytes, kLeast); need > arena_.size()) {
    arena_ = Arena(need, "buffers", false);
    prologue_of_ = nullptr;
  }
  const std::int64_t stride = std::max(round_up(plan.scratch_per_worker, kPage), kPage);
  if (stride > scratch_stride_ || stride * plan.threads > scratch_.size()) {
    scratch_stride_ = std::max(stride, scratch_stride_);
    scratch_ = Arena(scratch_stride_ * plan.threads, "scratch", false);
  }
  if (const std::int64_t need = std::max(plan.shared_bytes, kLeast); need > shared_.size())
    shared_ = Arena(need, "scratch", false);
}

}  // namespace rlx
