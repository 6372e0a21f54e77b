// What a test says instead of seconds: processor time as a multiple of a fixed piece of work, measured in turn with it.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace rlx::test {

inline double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

/// Fresh memory, arithmetic and branches in the mix of the code under test: about 25 ms at -O1 on a 2021 server core.
inline void work_unit() {
  std::vector<std::uint32_t> values(std::size_t{1} << 18);
  std::uint32_t state = 1;
  for (std::uint32_t& v : values) v = state = state * 1664525u + 1013904223u;
  std::sort(values.begin(), values.end());
  volatile std::uint32_t middle = values[values.size() / 2];
  static_cast<void>(middle);
}

/// Work units that f takes: the least of up to three runs, each beside a unit of its own. Stops early below `enough`.
template <typename F>
double cost(F f, double enough = 0) {
  double best = 1e300;
  for (int i = 0; i < 3 && best > enough; ++i) {
    const double a = thread_seconds();
    work_unit();
    const double b = thread_seconds();
    f();
    best = std::min(best, (thread_seconds() - b) / (b - a));
  }
  return best;
}

}  // namespace rlx::test
