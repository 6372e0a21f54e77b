#include "base/workers.h"

#include <chrono>
#include <system_error>

#include "base/cpu_features.h"
#include "base/error.h"

namespace rlx {
namespace {

inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until `word` differs from `old`: spins, yields, then parks. A pause takes 10 to 40 ns on
// the machines of interest, so `spins` of 2000 are about 50 us.
void wait_change(const std::atomic<std::uint32_t>& word, std::uint32_t old, int spins,
                 int yields) noexcept {
  for (int i = 0; i < spins; ++i) {
    if (word.load(std::memory_order_acquire) != old) return;
    pause();
  }
  for (int i = 0; i < yields; ++i) {
    if (word.load(std::memory_order_acquire) != old) return;
    std::this_thread::yield();
  }
  while (word.load(std::memory_order_acquire) == old) word.wait(old, std::memory_order_acquire);
}

// Whether so many threads cannot all run at once: on hyper-threads they can.
bool is_crowded(int threads) {
  if (threads == 1) return false;
  const CpuLimits limits = cpu_limits();
  return threads > limits.logical || (limits.quota > 0 && threads > limits.quota);
}

}  // namespace

void Barrier::wait() noexcept {
  if (threads_ == 1) return;
  const std::uint32_t epoch = epoch_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
    arrived_.store(0, std::memory_order_relaxed);
    epoch_.store(epoch + 1, std::memory_order_release);
    epoch_.notify_all();
    return;
  }
  crowded_ ? wait_change(epoch_, epoch, 20, 1) : wait_change(epoch_, epoch, 2000, 64);
}

Workers::Workers(int threads)
    : threads_(threads), crowded_(is_crowded(threads)), barrier_(threads, crowded_), done_(threads, crowded_) {
  if (threads < 1 || threads > 1024)
    fail(ErrorCode::invalid_argument, "threads: expected 1 to 1024, found {}", threads);
  try {
    for (int t = 1; t < threads; ++t) pool_.emplace_back([this, t] { loop(t); });
  } catch (const std::system_error& e) {
    // The threads that did start wait for their first job: let them see the end.
    stop_.store(true, std::memory_order_release);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    for (std::thread& t : pool_) t.join();
    fail(ErrorCode::memory, "cannot start {} threads: {}", threads, e.what());
  }
}

Workers::~Workers() {
  stop_.store(true, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& t : pool_) t.join();
}

void Workers::run(Job job, void* context) noexcept {
  job_ = job;
  context_ = context;
  if (threads_ > 1) {
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
  }
  job(context, 0);
  done_.wait();
}

void Workers::loop(int thread) noexcept {
  std::uint32_t seen = 0;
  for (;;) {
    // Between two steps of a generation lie tens of microseconds of sampling; 20000 pauses bridge
    // half a millisecond.
    wait_change(generation_, seen, crowded_ ? 20 : 20000, crowded_ ? 1 : 16);
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_acquire)) return;
    job_(context_, thread);
    done_.wait();
  }
}

}  // namespace rlx
