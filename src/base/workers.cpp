#include "base/workers.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <system_error>

#if defined(__linux__)
#include <sys/resource.h>
#endif

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

// Of a clock that costs less than a phase: two readings for each share.
inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  return __builtin_ia32_rdtsc();
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

// Whether so many threads cannot all run at once: on hyper-threads they can.
bool is_crowded(int threads) {
  if (threads == 1) return false;
  const CpuLimits limits = cpu_limits();
  return threads > limits.logical || (limits.quota > 0 && threads > limits.quota);
}

// How often the kernel took the core of this thread away; -1: unknown.
long lost_cores() noexcept {
#if defined(__linux__)
  rusage usage{};
  if (getrusage(RUSAGE_THREAD, &usage) == 0) return usage.ru_nivcsw;
#endif
  return -1;
}

// A pause takes 10 to 40 ns on the machines of interest. Between two steps of a generation lie tens of microseconds
// of sampling: 20000 pauses bridge half a millisecond.
constexpr int kSpins = 4000, kIdleSpins = 20000, kCrowdedSpins = 20;
// Pauses until a thread looks for shares that nobody has begun: looking makes the lines of all seats travel.
constexpr int kGrace = 40;
constexpr std::chrono::milliseconds kLeastRest{8}, kMostRest{256};

}  // namespace

/// What belongs to one share and its thread.
struct alignas(64) Workers::Seat {
  std::atomic<std::uint32_t> taken{0};  // the last phase whose share somebody has begun
  // Of the thread alone.
  std::uint64_t begin = 0, end = 0;  // ticks, of its last share
  long lost = 0;
  std::chrono::milliseconds rest{0};
  std::chrono::steady_clock::time_point back;
};

Workers::Workers(int threads) : threads_(threads), crowded_(is_crowded(threads)) {
  if (threads < 1 || threads > 1024)
    fail(ErrorCode::invalid_argument, "threads: expected 1 to 1024, found {}", threads);
  seats_ = std::make_unique<Seat[]>(static_cast<std::size_t>(threads));
  const std::vector<int>& processors = affinity();
  const auto processor_of = [&](int t) {
    return processors.empty() ? -1 : processors[static_cast<std::size_t>(t) % processors.size()];
  };
  try {
    for (int t = 1; t < threads; ++t) pool_.emplace_back([this, t, on = processor_of(t)] { loop(t, on); });
    // Last, so that no thread inherits it (kernels.md, 1.9).
    if (!processors.empty()) caller_ = std::make_unique<Pinned>(processor_of(0));
  } catch (const std::system_error& e) {
    stop();
    fail(ErrorCode::memory, "cannot start {} threads: {}", threads, e.what());
  }
}

Workers::~Workers() { stop(); }

void Workers::stop() noexcept {
  {
    const std::lock_guard lock(rest_mutex_);
    stop_.store(true);
  }
  rest_.notify_all();
  phase_.fetch_add(2);
  phase_.notify_all();
  for (std::thread& t : pool_) t.join();
}

void Workers::run_phases(Job job, void* context) noexcept {
  if (threads_ == 1) {
    for (std::int64_t place = 0; place != kEnd;) place = job(context, 0, 0, place);
    return;
  }
  job_ = job;
  context_ = context;
  place_ = 0;
  std::uint32_t now = phase_.fetch_add(1) + 1;
  phase_.notify_all();
  while (now % 2 == 0) {
    work(now, 0);
    now = wait(now, 0);
  }
}

void Workers::loop(int worker, int processor) noexcept {
  std::optional<Pinned> pinned;
  if (processor >= 0) pinned.emplace(processor);
  for (std::uint32_t now = 1;;) {
    now = wait(now, worker);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (now % 2 == 0) work(now, worker);
  }
}

void Workers::work(std::uint32_t now, int worker) noexcept {
  if (take(now, worker)) do_share(now, worker, worker);
  if (away_.load(std::memory_order_relaxed) > 0) help(now, worker);
}

// The shares of all threads were begun in the phase before: a thread that has slept through some phases finds none.
bool Workers::take(std::uint32_t now, int share) noexcept {
  std::atomic<std::uint32_t>& taken = seats_[static_cast<std::size_t>(share)].taken;
  std::uint32_t before = now - 2;
  return taken.load(std::memory_order_relaxed) == before &&
         taken.compare_exchange_strong(before, now, std::memory_order_acq_rel, std::memory_order_relaxed);
}

void Workers::help(std::uint32_t now, int worker) noexcept {
  for (int i = 1; i < threads_; ++i)
    if (const int share = (worker + i) % threads_; take(now, share)) do_share(now, share, worker);
}

void Workers::do_share(std::uint32_t now, int share, int worker) noexcept {
  Seat& seat = seats_[static_cast<std::size_t>(worker)];
  seat.begin = ticks();
  const std::int64_t next = job_(context_, share, worker, place_);
  seat.end = ticks();
  if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 < threads_) return;
  done_.store(0, std::memory_order_relaxed);
  place_ = next;
  // Sequentially consistent, so that a thread that is about to park is seen or sees this.
  phase_.store(next == kEnd ? now + 1 : now + 2);
  phase_.notify_all();
  if (late_.load(std::memory_order_relaxed) != now) return;
  const std::uint64_t waited = seat.end - late_since_.load(std::memory_order_relaxed);
  if (waited > late_share_.load(std::memory_order_relaxed)) kept_waiting(worker);
}

// Returns the phase after `now`, or a later one.
std::uint32_t Workers::wait(std::uint32_t now, int worker) noexcept {
  const bool open = now % 2 == 0;
  const int spins = crowded_ ? kCrowdedSpins : open ? kSpins : kIdleSpins;
  const int grace = std::min(kGrace, spins / 2);
  for (int i = 0; i < spins; ++i) {
    if (const std::uint32_t next = phase_.load(std::memory_order_acquire); next != now) return next;
    pause();
    if (open && i == grace) help(now, worker);
  }
  if (open) {
    const Seat& seat = seats_[static_cast<std::size_t>(worker)];
    late_since_.store(seat.end, std::memory_order_relaxed);
    late_share_.store(seat.end - seat.begin, std::memory_order_relaxed);
    late_.store(now, std::memory_order_relaxed);
  }
  for (;;) {
    if (const std::uint32_t next = phase_.load(std::memory_order_acquire); next != now) return next;
    phase_.wait(now, std::memory_order_acquire);
  }
}

// Others waited longer for this thread than they worked. If that was because other processes have its core as well, it
// will happen again, every few milliseconds: they are faster without it. It comes back after a while to look, later
// each time.
void Workers::kept_waiting(int worker) noexcept {
  if (worker == 0) return;
  Seat& seat = seats_[static_cast<std::size_t>(worker)];
  const long lost = lost_cores();
  if (lost == seat.lost) return;
  seat.lost = lost;
  const auto start = std::chrono::steady_clock::now();
  const bool again = start - seat.back < seat.rest + kMostRest;
  seat.rest = std::clamp(again ? seat.rest * 2 : kLeastRest, kLeastRest, kMostRest);
  away_.fetch_add(1);
  {
    std::unique_lock lock(rest_mutex_);
    rest_.wait_for(lock, seat.rest, [this] { return stop_.load(); });
  }
  away_.fetch_sub(1);
  seat.back = std::chrono::steady_clock::now();
}

}  // namespace rlx
