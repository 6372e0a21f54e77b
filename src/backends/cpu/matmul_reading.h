// How far ahead a product of one token asks for its weights. No distance changes a bit of a result. 8 KiB were best on
// Zen 5 for all types, with AVX-512 and with AVX2; other processors were not measured with these kernels, so every
// thread finds the distance for its machine and each type in its first calls, with weights that it must read anyway.
#pragma once

#include <cstdint>
#include <utility>

namespace rlx::cpu {
namespace {

constexpr std::int16_t kAheads[] = {8192, 0, 2048, 4096};  // bytes; the first one until one is found
constexpr int kAheadCount = 4;

/// All distances in turn, five times; then the one with the least median.
class ReadingChoice {
 public:
  std::int64_t next() const { return kAheads[calls_ % kAheadCount]; }
  std::int64_t best() const { return kAheads[best_]; }
  bool done() const { return calls_ >= kRounds * kAheadCount; }

  /// What the call took that used next().
  void record(float ticks_per_byte) {
    if (done()) return;
    times_[calls_ % kAheadCount][calls_ / kAheadCount] = ticks_per_byte;
    if (++calls_; done()) choose();
  }

 private:
  static constexpr int kRounds = 5;

  // Written out: a std::sort of this level's instructions could serve the rest of the program as well.
  static float median(float (&v)[kRounds]) {
    for (int i = 1; i < kRounds; ++i)
      for (int j = i; j > 0 && v[j] < v[j - 1]; --j) std::swap(v[j], v[j - 1]);
    return v[kRounds / 2];
  }
  void choose() {
    float least = 3e38f;
    for (int i = 0; i < kAheadCount; ++i)
      if (const float m = median(times_[i]); m < least) least = m, best_ = i;
  }

  int calls_ = 0, best_ = 0;
  float times_[kAheadCount][kRounds] = {};
};

}  // namespace
}  // namespace rlx::cpu
