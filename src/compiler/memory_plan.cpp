#include "compiler/memory_plan.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/checked.h"

namespace rlx {
namespace {

constexpr std::int64_t kAlign = 64;
// Placements that are tried beyond the fixed orders, as buffers placed in all: a graph of 200 buffers gets 40.
constexpr std::size_t kSearchWork = 8000;
constexpr std::size_t kMinRounds = 8, kMaxRounds = 400;

std::int64_t padded(const LiveBuffer& b) { return round_up(b.bytes, kAlign); }

bool needs_place(const LiveBuffer& b) { return b.bytes > 0 && b.last >= b.first; }

using Order = std::vector<std::uint32_t>;

// Which buffers are alive at the same time: for each the list of the others.
class Neighbours {
 public:
  Neighbours(std::span<const LiveBuffer> buffers, std::span<const std::uint32_t> all) : first_(buffers.size() + 1, 0) {
    Order by_start(all.begin(), all.end()), alive;
    std::stable_sort(by_start.begin(), by_start.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return buffers[a].first < buffers[b].first; });
    std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
    for (const std::uint32_t b : by_start) {
      std::erase_if(alive, [&](std::uint32_t a) { return buffers[a].last < buffers[b].first; });
      for (const std::uint32_t a : alive) pairs.emplace_back(a, b);
      alive.push_back(b);
    }
    for (const auto& [a, b] : pairs) ++first_[a + 1], ++first_[b + 1];
    for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    list_.resize(pairs.size() * 2);
    std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
    for (const auto& [a, b] : pairs) {
      list_[next[a]++] = b;
      list_[next[b]++] = a;
    }
  }

  std::span<const std::uint32_t> of(std::uint32_t buffer) const {
    return {list_.data() + first_[buffer], list_.data() + first_[buffer + 1]};
  }

 private:
  std::vector<std::uint32_t> first_, list_;
};

enum class Fit { best, first };

// Places buffers one after the other, each in the smallest or the first gap that holds it.
class Placer {
 public:
  Placer(std::span<const LiveBuffer> buffers, const Neighbours& neighbours, std::span<const std::size_t> bottom)
      : buffers_(buffers), neighbours_(neighbours), bottom_(bottom) {
    for (const LiveBuffer& b : buffers) bytes_.push_back(padded(b));
  }

  // False, with a placement cut short, when the arena reaches `most`.
  bool run(std::span<const std::uint32_t> order, Fit fit, std::int64_t most) {
    placement_.offsets.assign(buffers_.size(), kNowhere);
    placement_.arena_bytes = 0;
    std::int64_t end = 0;
    for (const std::size_t i : bottom_) {
      put(i, end);
      end += bytes_[i];
    }
    for (const std::uint32_t i : order) {
      put(i, find(i, fit));
      if (placement_.arena_bytes >= most) return false;
    }
    return true;
  }

  const Placement& placement() const { return placement_; }

 private:
  static constexpr std::int64_t kNowhere = -1;

  std::int64_t top(std::size_t i) const { return placement_.offsets[i] + bytes_[i]; }
  std::int64_t find(std::uint32_t i, Fit fit) {
    taken_.clear();
    for (const std::uint32_t j : neighbours_.of(i))
      if (placement_.offsets[j] != kNowhere) taken_.emplace_back(placement_.offsets[j], top(j));
    std::sort(taken_.begin(), taken_.end());
    std::int64_t end = 0, best = -1, best_size = std::numeric_limits<std::int64_t>::max();
    for (const auto& [from, to] : taken_) {
      const std::int64_t gap = from - end;
      if (gap >= bytes_[i] && gap < best_size) {
        if (fit == Fit::first) return end;
        best = end;
        best_size = gap;
      }
      end = std::max(end, to);
    }
    return best >= 0 ? best : end;
  }

  void put(std::size_t i, std::int64_t offset) {
    placement_.offsets[i] = offset;
    placement_.arena_bytes = std::max(placement_.arena_bytes, offset + bytes_[i]);
  }

  std::span<const LiveBuffer> buffers_;
  const Neighbours& neighbours_;
  std::span<const std::size_t> bottom_;
  std::vector<std::int64_t> bytes_;
  std::vector<std::pair<std::int64_t, std::int64_t>> taken_;
  Placement placement_;
};

using Key = double (*)(const LiveBuffer&);

constexpr Key kOrders[] = {
    [](const LiveBuffer& b) { return -static_cast<double>(b.bytes); },
    [](const LiveBuffer& b) { return -static_cast<double>(b.bytes) * (static_cast<double>(b.last) - b.first + 1); },
    [](const LiveBuffer& b) { return static_cast<double>(b.first); },
    [](const LiveBuffer& b) { return static_cast<double>(b.first) - b.last; },
};

class PlacementSearch {
 public:
  PlacementSearch(std::span<const LiveBuffer> buffers, std::span<const std::size_t> bottom, Order order,
                  const Neighbours& neighbours)
      : buffers_(buffers), least_(lower_bound(buffers)), order_(std::move(order)),
        placer_(buffers, neighbours, bottom) {
    best_.arena_bytes = std::numeric_limits<std::int64_t>::max();
  }

  Placement run() {
    for (const Key key : kOrders) {
      std::stable_sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
        return key(buffers_[a]) < key(buffers_[b]);
      });
      for (const Fit fit : {Fit::best, Fit::first}) {
        const bool better = attempt(order_, fit);
        if (done()) return std::move(best_);
        if (better) best_order_ = order_, best_fit_ = fit;
      }
    }
    improve();
    return std::move(best_);
  }

 private:
  bool done() const { return best_.arena_bytes <= least_; }

  bool attempt(std::span<const std::uint32_t> order, Fit fit) {
    placer_.run(order, fit, kAny);
    if (placer_.placement().arena_bytes >= best_.arena_bytes) return false;
    best_ = placer_.placement();
    return true;
  }

  // What lies at the top was placed too late: it goes to an earlier place in the order. A new order is kept when it is
  // no worse, so that the search crosses plateaus.
  void improve() {
    const std::size_t n = best_order_.size();
    if (n < 2) return;
    const std::size_t rounds = std::clamp(kSearchWork / n, kMinRounds, kMaxRounds);
    Order order = best_order_, next;
    placer_.run(order, best_fit_, kAny);
    Placement now = placer_.placement();
    for (std::size_t r = 0; r < rounds && !done(); ++r) {
      next = order;
      raise(next, now);
      if (random(4) == 0) raise(next, now);
      // What is larger is not placed to the end.
      if (!placer_.run(next, best_fit_, now.arena_bytes + 1)) continue;
      order.swap(next);
      now = placer_.placement();
      if (now.arena_bytes < best_.arena_bytes) best_ = now;
    }
  }

  // One of the buffers at the top, or any other, moves to a random place in front of its own.
  void raise(Order& order, const Placement& placement) {
    std::size_t at = random(order.size());
    for (std::size_t k = 0; k < order.size(); ++k) {
      const std::size_t i = (at + k) % order.size();
      if (placement.offsets[order[i]] + padded(buffers_[order[i]]) != placement.arena_bytes) continue;
      at = i;
      break;
    }
    if (at == 0) at = order.size() - 1;
    const std::size_t to = random(at);
    const auto from = order.begin() + static_cast<std::ptrdiff_t>(at);
    std::rotate(order.begin() + static_cast<std::ptrdiff_t>(to), from, from + 1);
  }

  // The same numbers in every process: equal programs get equal plans.
  std::size_t random(std::size_t below) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>((state_ >> 33) % below);
  }

  static constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

  std::span<const LiveBuffer> buffers_;
  std::int64_t least_;
  Order order_, best_order_;
  Fit best_fit_ = Fit::best;
  Placer placer_;
  Placement best_;
  std::uint64_t state_ = 1;
};

}  // namespace

Placement place_buffers(std::span<const LiveBuffer> buffers, std::span<const std::size_t> bottom) {
  Order all, order;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (!needs_place(buffers[i])) continue;
    all.push_back(static_cast<std::uint32_t>(i));
    if (std::find(bottom.begin(), bottom.end(), i) == bottom.end()) order.push_back(all.back());
  }
  const Neighbours neighbours(buffers, all);
  Placement placement = PlacementSearch(buffers, bottom, std::move(order), neighbours).run();
  for (std::int64_t& o : placement.offsets) o = std::max<std::int64_t>(o, 0);
  return placement;
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
