// The threads of the SPMD executor: work is cut into phases, a phase into one share for each thread, and a phase begins
// when all shares of the one before are done (kernels.md, 2.6).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/affinity.h"

namespace rlx {

/// A team of threads; thread 0 is the caller of run(). A thread takes its own share of each phase, and then the shares
/// of threads that have not come: so a thread that has lost its core between two phases holds nobody up. One that
/// lost it in the middle of a share, while others waited, stays away for some milliseconds. Threads that wait spin,
/// then park in the kernel: it makes progress also with more threads than free cores (kernels.md, 1.9). No allocation,
/// no system call while threads are in step.
class Workers {
 public:
  /// Where affinity() names processors (affinity.h), thread t stays on number t, from the first one again beyond the
  /// last; the calling thread until the team ends. Errors (invalid_argument): threads outside 1..1024; (memory) when a
  /// thread cannot be started.
  explicit Workers(int threads);
  Workers(const Workers&) = delete;
  ~Workers();

  int threads() const { return threads_; }

  /// Does a share of the phase at `place` and returns the place of the next phase, the same for all shares; kEnd: there
  /// is none. `worker`: the thread that does it. Must not throw.
  using Job = std::int64_t (*)(void* context, int share, int worker, std::int64_t place) noexcept;
  static constexpr std::int64_t kEnd = -1;

  /// All phases from place 0 on; returns when the last one is done.
  void run_phases(Job job, void* context) noexcept;
  template <typename F>
  void run_phases(F&& f) noexcept {
    run_phases([](void* c, int share, int worker, std::int64_t place) noexcept
                   -> std::int64_t { return (*static_cast<std::remove_reference_t<F>*>(c))(share, worker, place); },
               const_cast<void*>(static_cast<const void*>(&f)));
  }

  /// One phase: f(share) for each share.
  template <typename F>
  void run(F&& f) noexcept {
    run_phases([&f](int share, int, std::int64_t) noexcept {
      f(share);
      return kEnd;
    });
  }

 private:
  struct Seat;
  void open(std::int64_t place) noexcept;
  void loop(int worker, int processor) noexcept;
  void work(std::uint32_t now, int worker) noexcept;
  void help(std::uint32_t now, int worker) noexcept;
  bool take(std::uint32_t now, int share) noexcept;
  void do_share(std::uint32_t now, int share, int worker) noexcept;
  std::uint32_t wait(std::uint32_t now, int worker) noexcept;
  void kept_waiting(int worker) noexcept;
  void stop() noexcept;

  const int threads_;
  const bool crowded_;
  Job job_ = nullptr;
  void* context_ = nullptr;
  std::int64_t place_ = 0;
  // Even: the phase under way. Odd: there is none. Two more for each phase.
  alignas(64) std::atomic<std::uint32_t> phase_{1};
  alignas(64) std::atomic<int> done_{0};  // shares of the phase
  // What a thread left behind that has waited long, for the one that it waited for.
  alignas(64) std::atomic<std::uint32_t> late_{0};  // the phase
  std::atomic<std::uint64_t> late_since_{0}, late_share_{0};
  std::atomic<int> away_{0};
  std::atomic<bool> stop_{false};
  std::mutex rest_mutex_;
  std::condition_variable rest_;
  std::unique_ptr<Seat[]> seats_;
  std::vector<std::thread> pool_;
  std::unique_ptr<Pinned> caller_;
};

}  // namespace rlx
