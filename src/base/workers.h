// The threads of the SPMD executor: all run the same function and meet at barriers
// (kernels.md, 2.6).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace rlx {

/// A barrier for a fixed number of threads: spins for about 50 us, then yields, then parks in the
/// kernel, so that it makes progress also with more threads than free cores (kernels.md, 1.9). No
/// allocation, no system call while threads are in step. `crowded`: there are more threads than cores for them, so that
/// a thread that spins keeps another one from arriving.
class Barrier {
 public:
  explicit Barrier(int threads, bool crowded = false)
      : threads_(static_cast<std::uint32_t>(threads)), crowded_(crowded) {}
  void wait() noexcept;

 private:
  const std::uint32_t threads_;
  const bool crowded_;
  alignas(64) std::atomic<std::uint32_t> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> epoch_{0};
};

/// A team of threads; thread 0 is the caller of run(). Workers spin for a while after a job, so
/// that the next step of a generation finds them hot, and park when idle.
class Workers {
 public:
  /// Errors (invalid_argument): threads outside 1..1024; (memory) when a thread cannot be started.
  explicit Workers(int threads);
  Workers(const Workers&) = delete;
  ~Workers();

  int threads() const { return threads_; }
  Barrier& barrier() { return barrier_; }

  /// Calls job(context, thread) on every thread and returns when all are done. The job must not
  /// throw.
  using Job = void (*)(void* context, int thread) noexcept;
  void run(Job job, void* context) noexcept;

  /// run() for a callable that must not throw.
  template <typename F>
  void run(F&& f) noexcept {
    run([](void* c,
           int thread) noexcept { (*static_cast<std::remove_reference_t<F>*>(c))(thread); },
        const_cast<void*>(static_cast<const void*>(&f)));
  }

 private:
  void loop(int thread) noexcept;

  const int threads_;
  const bool crowded_;
  Barrier barrier_;
  Barrier done_;
  Job job_ = nullptr;
  void* context_ = nullptr;
  alignas(64) std::atomic<std::uint32_t> generation_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> pool_;
};

}  // namespace rlx
