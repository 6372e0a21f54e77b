// Runs a placed program: a share for each worker, which walks the whole list of calls, and a phase from each planned
// barrier to the next (kernels.md, 2.6).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/workers.h"
#include "device/program.h"
#include "runtime/weight_gate.h"

namespace rlx {

class Trace;

/// Sizes of a step: symbols with their actual values, each at most the plan's.
struct StepSizes {
  std::int64_t rows = 0, out_rows = 0, batch = 0;
  bool operator==(const StepSizes&) const = default;
  DimBinding binding() const;
};

class Executor {
 public:
  /// `weights` and `states` in the order of the program's entries; pages_per_slot and slots size
  /// the view of the page table.
  struct Bindings {
    std::vector<const std::byte*> weights;
    std::vector<std::shared_ptr<const void>> owners;  ///< keep the weights alive
    std::vector<void*> states;
    std::int64_t slots = 1, pages_per_slot = 1;
    WeightGate* gate = nullptr;  ///< calls wait here for weights that are still being filled
  };
  Executor(std::shared_ptr<const Program> program, Plan plan, Bindings bindings);

  const Plan& plan() const { return plan_; }

  /// Memory that executors of one session share: the largest of each need.
  struct Memory {
    std::byte* arena = nullptr;
    std::byte* scratch =
        nullptr;  ///< plan().scratch_per_worker bytes a worker, or more: `scratch_stride` apart
    std::int64_t scratch_stride = 0;
    std::byte* shared = nullptr;
    /// Whose prologue left its results in the arena last: they lie at the same places in all plans of a program, so an
    /// executor that finds its program here runs the prologue no second time. nullptr: nobody keeps count.
    const Program** prologue_of = nullptr;
    bool operator==(const Memory&) const = default;
  };

  /// Runs one step. `inputs` are the arrays of the program's inputs in order. Allocates nothing when
  /// sizes and memory are those of the step before. Errors: limit (a size above the plan's); a
  /// reference op that fails. Calls whose results have no rows are left out.
  void run(const StepSizes& sizes, const std::int32_t* const* inputs, const Memory& memory,
           Workers& workers);
  void run(const DimBinding& sizes, const void* const* inputs, const Memory& memory, Workers& workers);
  /// Weights or states at other addresses: the prologue runs again.
  void rebind(Bindings bindings);

  /// Bytes of output i after run(); without data when the output is an input.
  const TensorView& output(std::size_t i) const;
  std::int64_t prologue_runs() const { return prologue_runs_; }

  /// Times of a call in share 0, summed while the profile is on.
  struct CallTime {
    std::int64_t runs = 0;
    double us = 0;       ///< in the kernel
    double wait_us = 0;  ///< from its end until share 0 goes on: at the barrier, where there is one
  };
  void set_profile(bool on) { profile_ = on; }
  const std::vector<CallTime>& call_times() const { return call_times_; }
  void clear_profile();
  /// Every call and wait of the steps that follow is recorded there; nullptr: nothing is. The trace outlives its use.
  void set_trace(Trace* trace) { trace_ = trace; }
  /// The sizes of the last step.
  const DimBinding& sizes() const { return binding_; }

 private:
  struct Prepared {
    std::int32_t in = 0, out = 0;  // first views in call_views_
    bool skip = false;
    std::int64_t count = 0, bytes = 0;  // of control flow: iterations; bytes that are copied
  };
  void prepare(const DimBinding& sizes, const Memory& memory);
  void prepare_flow(std::size_t c, const DimBinding& binding);
  void execute(const void* const* inputs, Workers& workers);
  /// What a worker does of a phase: usually the share of its own number.
  struct Share {
    int number, worker, of;
  };
  std::int64_t phase(const Share& share, std::int64_t place) noexcept;
  void end_wait() noexcept;
  void run_call(std::size_t c, int thread, int threads) noexcept;
  bool weights_arrived(const Call& call) const;
  void finish_gate();
  void run_reference(std::size_t c, const KernelArgs& args) noexcept;
  void run_flow(std::size_t c, int thread, int threads) noexcept;
  std::size_t next_call(std::size_t c) const noexcept;

  std::shared_ptr<const Program> program_;
  Plan plan_;
  Bindings bindings_;
  StepSizes sizes_{-1, -1, -1};  // of run(StepSizes), whose comparison allocates nothing
  DimBinding binding_;
  bool prepared_for_ = false;
  bool run_prologue_ = true;    // in the step under way
  bool force_prologue_ = false;  // what it left is not there, or not true
  std::int64_t prologue_runs_ = 0;
  Memory memory_;
  std::vector<TensorView> views_;       // per operand
  std::vector<TensorView> call_views_;  // operands of each call in order
  std::vector<Prepared> prepared_;
  std::vector<AttrBlob> attrs_;  // of each call, sizes in them bound
  std::vector<std::pair<std::int32_t, std::size_t>>
      input_views_;  // input number -> index in call_views_
  std::string failure_;
  bool profile_ = false;
  Trace* trace_ = nullptr;
  std::vector<CallTime> call_times_;
  struct TimedWait {
    std::size_t call = 0;
    std::chrono::steady_clock::time_point since{};
  };
  TimedWait timed_wait_;
  struct alignas(64) Wait {
    std::int64_t begin = 0;  // nanoseconds; 0: none
    std::int32_t call = 0;
  };
  std::vector<Wait> waits_;  // of each worker, while there is a trace
};

}  // namespace rlx
