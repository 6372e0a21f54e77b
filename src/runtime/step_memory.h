// The memory that steps run in: buffers, scratch of the workers, the area that they share.
#pragma once

#include <cstdint>

#include "base/arena.h"
#include "runtime/executor.h"

namespace rlx {

/// Shared by executors that run one after the other; as large as the largest plan that it was fitted to.
class StepMemory {
 public:
  StepMemory() = default;
  StepMemory(const StepMemory&) = delete;
  StepMemory& operator=(const StepMemory&) = delete;

  /// Grows where a plan needs more; what a prologue left in the arena is then gone. Error(memory).
  void fit(const Plan& plan);
  Executor::Memory get() { return {arena_.data(), scratch_.data(), scratch_stride_, shared_.data(), &prologue_of_}; }
  std::int64_t bytes() const { return arena_.size() + scratch_.size() + shared_.size(); }

 private:
  Arena arena_, scratch_, shared_;
  std::int64_t scratch_stride_ = 0;
  const Program* prologue_of_ = nullptr;
};

}  // namespace rlx
