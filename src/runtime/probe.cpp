#include "runtime/probe.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/arena.h"
#include "base/cpu_features.h"
#include "runtime/backends.h"
#include "runtime/probe_loops.h"

namespace rlx {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kBuffer = std::int64_t{256} << 20;
constexpr int kPasses = 3;
constexpr std::int64_t kRounds = 2'000'000;

struct Loops {
  std::uint64_t (*read)(const std::byte*, std::size_t) noexcept;
  std::int64_t (*multiply)(std::int64_t) noexcept;
  std::int64_t operations;
};

Loops loops_of(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512)
    return {probe_loops::avx512::read, probe_loops::avx512::multiply,
            probe_loops::avx512::operations_per_round};
  if (isa >= Isa::avx2)
    return {probe_loops::avx2::read, probe_loops::avx2::multiply,
            probe_loops::avx2::operations_per_round};
#endif
  static_cast<void>(isa);
  return {probe_loops::baseline::read, probe_loops::baseline::multiply,
          probe_loops::baseline::operations_per_round};
}

double seconds_of_pass(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What one call returns is of no interest, but the compiler must not know that.
void keep(std::uint64_t value) { __asm__ volatile("" : : "r"(value)); }

}  // namespace

ProbeResult probe(Workers& workers) {
  const Loops loops = loops_of(find_backend(Device::cpu()).isa());
  const auto free = static_cast<std::int64_t>(memory_info().available);
  const std::int64_t threads = workers.threads(),
                     share = std::max<std::int64_t>(
                         std::min(kBuffer, free / 4) / threads / 4096 * 4096, 4096);
  const Arena buffer(share * threads, "the probe's buffer");
  // Every thread touches its own part: pages of zeros would all be one page.
  workers.run([&](int t) noexcept {
    std::memset(buffer.data() + t * share, t + 1, static_cast<std::size_t>(share));
  });
  ProbeResult best;
  for (int pass = 0; pass < kPasses; ++pass) {
    Clock::time_point start = Clock::now();
    workers.run([&](int t) noexcept {
      keep(loops.read(buffer.data() + t * share, static_cast<std::size_t>(share)));
    });
    best.gbps =
        std::max(best.gbps, static_cast<double>(share * threads) / seconds_of_pass(start) / 1e9);
    start = Clock::now();
    workers.run([&](int) noexcept { keep(static_cast<std::uint64_t>(loops.multiply(kRounds))); });
    best.gops = std::max(best.gops, static_cast<double>(kRounds * loops.operations * threads) /
                                        seconds_of_pass(start) / 1e9);
  }
  return best;
}

}  // namespace rlx
