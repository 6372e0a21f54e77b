// The inner loops of the probe, one namespace per instruction-set level (probe_loops.simd.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

#define RLX_PROBE_LEVEL(level)                                           \
  namespace rlx::probe_loops::level {                                    \
  std::uint64_t read(const std::byte* data, std::size_t bytes) noexcept; \
  std::int64_t multiply(std::int64_t rounds) noexcept;                   \
  extern const std::int64_t operations_per_round;                        \
  }
RLX_PROBE_LEVEL(baseline)
RLX_PROBE_LEVEL(avx2)
RLX_PROBE_LEVEL(avx512)
#undef RLX_PROBE_LEVEL
