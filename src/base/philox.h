// Counter-based random numbers: Philox 4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw: "Parallel
// random numbers: as easy as 1, 2, 3", SC11, https://doi.org/10.1145/2063384.2063405).
#pragma once

#include <array>
#include <cstdint>

namespace rlx {

/// Four random words of a counter and a key.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                              std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// A number of 53 bits in [0, 1): number `step` of the stream `seed`.
constexpr double philox_uniform(std::uint64_t seed, std::uint64_t step) {
  const auto low = [](std::uint64_t v) { return static_cast<std::uint32_t>(v); };
  const auto high = [](std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); };
  const auto r = philox({low(step), high(step), 0, 0}, {low(seed), high(seed)});
  return static_cast<double>((std::uint64_t{r[0]} << 32 | r[1]) >> 11) * 0x1p-53;
}

}  // namespace rlx
