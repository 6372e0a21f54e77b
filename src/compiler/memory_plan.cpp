#include "compiler/memory_plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/checked.h"

namespace rlx {
namespace {

constexpr std::int64_t kAlign = 64;

struct Interval {
  std::int64_t from, to;
};

bool together(const LiveBuffer& a, const LiveBuffer& b) { return a.first <= b.last && b.first <= a.last; }

std::int64_t padded(const LiveBuffer& b) { return round_up(b.bytes, kAlign); }

bool needs_place(const LiveBuffer& b) { return b.bytes > 0 && b.last >= b.first; }

// Buffers that have a place, in the order of their offsets.
class Placer {
 public:
  explicit Placer(std::span<const LiveBuffer> buffers) : buffers_(buffers) {
    placement_.offsets.assign(buffers.size(), 0);
  }

  // In the smallest gap that holds it, or behind the last that is alive at the same time.
  void best_fit(std::size_t i) {
    const LiveBuffer& b = buffers_[i];
    const std::int64_t bytes = padded(b);
    std::int64_t end = 0, best = -1, best_size = std::numeric_limits<std::int64_t>::max();
    for (const auto& [at, j] : placed_) {
      if (!together(b, buffers_[j])) continue;
      const std::int64_t gap = at.from - end;
      if (gap >= bytes && gap < best_size) {
        best = end;
        best_size = gap;
      }
      end = std::max(end, at.to);
    }
    put(i, best >= 0 ? best : end);
  }

  void put(std::size_t i, std::int64_t offset) {
    const Interval at{offset, offset + padded(buffers_[i])};
    placement_.offsets[i] = offset;
    placement_.arena_bytes = std::max(placement_.arena_bytes, at.to);
    const auto behind = std::upper_bound(placed_.begin(), placed_.end(), offset,
                                         [](std::int64_t o, const auto& p) { return o < p.first.from; });
    placed_.insert(behind, {at, i});
  }

  Placement& placement() { return placement_; }

 private:
  std::span<const LiveBuffer> buffers_;
  std::vector<std::pair<Interval, std::size_t>> placed_;
  Placement placement_;
};

using Key = std::int64_t (*)(const LiveBuffer&);

constexpr Key kOrders[] = {
    [](const LiveBuffer& b) { return -b.bytes; },
    [](const LiveBuffer& b) { return -b.bytes * (b.last - b.first + 1); },
    [](const LiveBuffer& b) { return std::int64_t{b.first}; },
};

}  // namespace

Placement place_buffers(std::span<const LiveBuffer> buffers, std::span<const std::size_t> bottom) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (needs_place(buffers[i]) && std::find(bottom.begin(), bottom.end(), i) == bottom.end()) order.push_back(i);
  const std::int64_t least = lower_bound(buffers);
  std::optional<Placement> best;
  for (const Key key : kOrders) {
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return key(buffers[a]) < key(buffers[b]); });
    Placer placer(buffers);
    std::int64_t end = 0;
    for (const std::size_t i : bottom) {
      placer.put(i, end);
      end += padded(buffers[i]);
    }
    for (const std::size_t i : order) placer.best_fit(i);
    if (!best || placer.placement().arena_bytes < best->arena_bytes) best = std::move(placer.placement());
    if (best->arena_bytes <= least) break;
  }
  return std::move(*best);
}

std::int64_t lower_bound(std::span<const LiveBuffer> buffers) {
  std::int32_t end = 0;
  for (const LiveBuffer& b : buffers) end = std::max(end, b.last + 1);
  std::vector<std::int64_t> change(static_cast<std::size_t>(end) + 1, 0);
  for (const LiveBuffer& b : buffers) {
    if (!needs_place(b)) continue;
    change[static_cast<std::size_t>(b.first)] += padded(b);
    change[static_cast<std::size_t>(b.last) + 1] -= padded(b);
  }
  std::int64_t most = 0, now = 0;
  for (const std::int64_t c : change) most = std::max(most, now += c);
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
