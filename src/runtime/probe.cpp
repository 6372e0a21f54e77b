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
// The best of some passes: a neighbour on the machine disturbs some of them.
constexpr int kPasses = 8;
constexpr std::int64_t kRounds = 2'000'000;  // 3 ms: waking the workers takes 0.1

struct Loops {
  std::uint64_t (*read)(const std::byte*, std::size_t) noexcept;
  ProbeLoop units[kComputeUnits];  // in the order of ComputeUnit
};

Loops loops_of(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512_bf16) {
    namespace level = probe_loops::avx512_bf16;
    return {level::read, {level::int8, level::bf16, level::f32, isa >= Isa::amx ? level::amx : level::bf16}};
  }
  if (isa >= Isa::avx512) {
    namespace level = probe_loops::avx512;
    return {level::read, {level::int8, level::bf16, level::f32, level::bf16}};
  }
  if (isa >= Isa::avx2) {
    namespace level = probe_loops::avx2;
    return {level::read, {level::int8, level::bf16, level::f32, level::bf16}};
  }
#endif
  static_cast<void>(isa);
  namespace level = probe_loops::baseline;
  return {level::read, {level::int8, level::bf16, level::f32, level::bf16}};
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
  double* const rates[kComputeUnits] = {&best.gops, &best.bf16_gflops, &best.f32_gflops, &best.amx_gflops};
  for (int pass = 0; pass < kPasses; ++pass) {
    Clock::time_point start = Clock::now();
    workers.run([&](int t) noexcept {
      keep(loops.read(buffer.data() + t * share, static_cast<std::size_t>(share)));
    });
    best.gbps = std::max(best.gbps, static_cast<double>(share * threads) / seconds_of_pass(start) / 1e9);
    for (int u = 0; u < kComputeUnits; ++u) {
      const ProbeLoop& loop = loops.units[u];
      start = Clock::now();
      workers.run([&](int) noexcept { keep(static_cast<std::uint64_t>(loop.run(kRounds) != 0)); });
      const double operations = static_cast<double>(kRounds * loop.operations * threads);
      *rates[u] = std::max(*rates[u], operations / seconds_of_pass(start) / 1e9);
    }
  }
  return best;
}

std::string_view name(ComputeUnit unit) {
  constexpr std::string_view names[kComputeUnits] = {"int8", "bf16", "f32", "amx"};
  return names[static_cast<std::size_t>(unit)];
}

double ProbeResult::rate(ComputeUnit unit) const {
  const double rates[kComputeUnits] = {gops, bf16_gflops, f32_gflops, amx_gflops};
  return rates[static_cast<std::size_t>(unit)];
}

ProbeResult mean(const ProbeResult& a, const ProbeResult& b) {
  return {(a.gbps + b.gbps) / 2, (a.gops + b.gops) / 2, (a.bf16_gflops + b.bf16_gflops) / 2,
          (a.f32_gflops + b.f32_gflops) / 2, (a.amx_gflops + b.amx_gflops) / 2};
}

}  // namespace rlx
