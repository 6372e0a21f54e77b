// The inner loops of the probe, one namespace per instruction-set level (probe_loops.simd.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace rlx {

/// A loop of products in registers, and what one of its rounds computes.
struct ProbeLoop {
  float (*run)(std::int64_t rounds) noexcept;
  std::int64_t operations;  ///< of a round; a multiply-add is two
};

}  // namespace rlx

#define RLX_PROBE_LEVEL(level)                                           \
  namespace rlx::probe_loops::level {                                    \
  std::uint64_t read(const std::byte* data, std::size_t bytes) noexcept; \
  extern const ProbeLoop int8, bf16, f32;                                \
  }
RLX_PROBE_LEVEL(baseline)
RLX_PROBE_LEVEL(avx2)
RLX_PROBE_LEVEL(avx512)
RLX_PROBE_LEVEL(avx512_bf16)
#undef RLX_PROBE_LEVEL
namespace rlx::probe_loops::avx512_bf16 {
extern const ProbeLoop amx;  // on machines with tile registers only
}
