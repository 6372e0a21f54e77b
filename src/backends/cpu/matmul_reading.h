// How far ahead a product of one token asks for its weights. No distance changes a bit of a result. 8 KiB were best on
// Zen 5 for all types, with AVX-512 and with AVX2; elsewhere the heavier types differ, so that every thread finds the
// distance for its machine and each type in its first calls, with the weights that it must read anyway.
#pragma once

#include <algorithm>
#include <cstdint>

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

  void choose() {
    float least = 3e38f;
    for (int i = 0; i < kAheadCount; ++i) {
      std::sort(times_[i], times_[i] + kRounds);
      if (const float median = times_[i][kRounds / 2]; median < least) least = median, best_ = i;
    }
  }

  int calls_ = 0, best_ = 0;
  float times_[kAheadCount][kRounds] = {};
};

}  // namespace
}  // namespace rlx::cpu
