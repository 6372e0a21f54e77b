// The random numbers that samples are made of: the same on every machine and with every standard library.
#pragma once

#include <cstdint>

namespace rlx {

/// SplitMix64 (https://prng.di.unimi.it/splitmix64.c): any seed is good.
class SampleRandom {
 public:
  explicit SampleRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  /// In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// In [first, last].
  std::int64_t between(std::int64_t first, std::int64_t last) {
    return first + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(last - first + 1));
  }
  /// A sum of twelve uniform values: near enough to a Gaussian, and without library functions that differ between
  /// machines.
  float normal(float scale) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return static_cast<float>(sum * double{scale});
  }

 private:
  std::uint64_t state_;
};

}  // namespace rlx
