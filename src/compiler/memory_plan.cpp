#include "compiler/memory_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/checked.h"

namespace rlx {
namespace {

constexpr std::int64_t kAlign = 64;

struct Interval {
  std::int64_t from, to;
};

bool together(const LiveBuffer& a, const LiveBuffer& b) {
  return a.first <= b.last && b.first <= a.last;
}

// The smallest gap between intervals that holds `bytes`, or the end of the last one.
std::int64_t best_gap(std::vector<Interval>& taken, std::int64_t bytes) {
  std::sort(taken.begin(), taken.end(), [](Interval a, Interval b) { return a.from < b.from; });
  std::int64_t end = 0, best = -1, best_size = std::numeric_limits<std::int64_t>::max();
  for (Interval t : taken) {
    const std::int64_t gap = t.from - end;
    if (gap >= bytes && gap < best_size) {
      best = end;
      best_size = gap;
    }
    end = std::max(end, t.to);
  }
  return best >= 0 ? best : end;
}

}  // namespace

Placement place_buffers(std::span<const LiveBuffer> buffers) {
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return buffers[a].bytes > buffers[b].bytes;
  });
  Placement p;
  p.offsets.assign(buffers.size(), 0);
  std::vector<std::size_t> placed;
  std::vector<Interval> taken;
  for (std::size_t i : order) {
    const LiveBuffer& b = buffers[i];
    if (b.bytes <= 0 || b.last < b.first) continue;
    taken.clear();
    for (std::size_t j : placed)
      if (together(b, buffers[j]))
        taken.push_back({p.offsets[j], p.offsets[j] + round_up(buffers[j].bytes, kAlign)});
    p.offsets[i] = best_gap(taken, round_up(b.bytes, kAlign));
    p.arena_bytes = std::max(p.arena_bytes, p.offsets[i] + round_up(b.bytes, kAlign));
    placed.push_back(i);
  }
  return p;
}

std::int64_t lower_bound(std::span<const LiveBuffer> buffers) {
  std::int64_t most = 0;
  for (const LiveBuffer& at : buffers) {
    std::int64_t sum = 0;
    for (const LiveBuffer& b : buffers)
      if (b.bytes > 0 && b.first <= at.first && at.first <= b.last)
        sum += round_up(b.bytes, kAlign);
    most = std::max(most, sum);
  }
  return most;
}

void check_placement(std::span<const LiveBuffer> buffers, const Placement& placement) {
  RLX_CHECK(placement.offsets.size() == buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const LiveBuffer& a = buffers[i];
    if (a.bytes <= 0 || a.last < a.first) continue;
    const std::int64_t from = placement.offsets[i], to = from + a.bytes;
    RLX_CHECK(from >= 0 && from % kAlign == 0 && to <= placement.arena_bytes,
              fmt::format("buffer {} leaves the arena", i));
    for (std::size_t j = 0; j < i; ++j) {
      const LiveBuffer& b = buffers[j];
      if (b.bytes <= 0 || b.last < b.first || a.last < b.first || b.last < a.first) continue;
      const std::int64_t from_b = placement.offsets[j], to_b = from_b + b.bytes;
      RLX_CHECK(to <= from_b || to_b <= from,
                fmt::format("buffers {} and {} overlap while both are alive", j, i));
    }
  }
}

}  // namespace rlx
