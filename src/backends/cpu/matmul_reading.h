// How packed panels are read for one token: how many side by side, and how far ahead memory is asked for. No way
// changes a bit of a result, and none is best everywhere (GB/s of two AVX2 threads where the read probe had 20 to 30:
// q5_0 one panel, 2 KiB ahead 20.6, four panels 12.5; q4_1 four panels, not ahead 14.6, 2 KiB ahead 9.3), so that every
// thread finds the one for its machine and each type in its first calls, with the weights that it must read anyway.
#pragma once

#include "backends/cpu/matmul_plan.h"
#include "tensor/dtype.h"

namespace rlx::cpu {
namespace {

struct Reading {
  std::int8_t panels, ahead;  ///< at once, up to kDirectPanels; place in kAheads
};
constexpr Reading kReadings[] = {{1, 0}, {1, 1}, {1, 2}, {2, 0}, {2, 1}, {2, 2}, {4, 0}, {4, 1}, {4, 2}};
constexpr int kReadingCount = 9;

/// All readings in turn, three times; then the three with the best medians, nine times; then the best of these.
class ReadingChoice {
 public:
  Reading next() const { return kReadings[slot()]; }
  bool done() const { return calls_ >= kFirst + kSecond; }

  /// What the call took that used next().
  void record(float ticks_per_byte) {
    if (done()) return;
    if (calls_ < kFirst)
      first_[calls_ % kReadingCount][calls_ / kReadingCount] = ticks_per_byte;
    else
      second_[(calls_ - kFirst) % 3][(calls_ - kFirst) / 3] = ticks_per_byte;
    ++calls_;
    if (calls_ == kFirst) choose_three();
    if (done()) choose_one();
  }

 private:
  static constexpr int kFirst = kReadingCount * 3, kSecond = 27;

  int slot() const {
    if (calls_ < kFirst) return calls_ % kReadingCount;
    return best_[done() ? 0 : (calls_ - kFirst) % 3];
  }
  // The median of an odd number of values.
  template <int N>
  static float median(float (&v)[N]) {
    for (int i = 1; i < N; ++i)
      for (int j = i; j > 0 && v[j] < v[j - 1]; --j) std::swap(v[j], v[j - 1]);
    return v[N / 2];
  }
  void choose_three() {
    float medians[kReadingCount];
    for (int r = 0; r < kReadingCount; ++r) medians[r] = median(first_[r]);
    for (int place = 0; place < 3; ++place) {
      int least = 0;
      for (int r = 1; r < kReadingCount; ++r)
        if (medians[r] < medians[least]) least = r;
      best_[place] = static_cast<std::int8_t>(least);
      medians[least] = 3e38f;
    }
  }
  void choose_one() {
    int least = 0;
    float value = median(second_[0]);
    for (int place = 1; place < 3; ++place)
      if (const float m = median(second_[place]); m < value) value = m, least = place;
    best_[0] = best_[least];
  }

  int calls_ = 0;
  std::int8_t best_[3] = {};
  float first_[kReadingCount][3] = {}, second_[3][9] = {};
};

}  // namespace
}  // namespace rlx::cpu
