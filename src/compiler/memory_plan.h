// Placement of buffers in one arena from their live ranges, and an independent checker.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rlx {

/// A buffer that is touched by calls first..last (inclusive).
struct LiveBuffer {
  std::int64_t bytes = 0;
  std::int32_t first = 0, last = 0;
};

struct Placement {
  std::vector<std::int64_t> offsets;  ///< multiples of 64
  std::int64_t arena_bytes = 0;
};

/// Each buffer goes to the smallest, or the first, gap between those that are alive at the same time. Several orders
/// (by size, by size times life, by first use, by life) are tried until one meets the lower bound; when none does, the
/// best is changed step by step, within a bound on work. The best placement is taken; equal buffers get equal offsets.
/// Empty buffers get offset 0. `bottom`: buffers that lie at the bottom in this order, whatever else there is.
Placement place_buffers(std::span<const LiveBuffer> buffers, std::span<const std::size_t> bottom = {});

/// Largest sum of bytes (rounded up to 64) alive at one call: no placement can be smaller.
std::int64_t lower_bound(std::span<const LiveBuffer> buffers);

/// Throws InternalError when two buffers that are alive at the same call overlap, or one leaves the
/// arena. Written apart from the planner: it compares all pairs.
void check_placement(std::span<const LiveBuffer> buffers, const Placement& placement);

}  // namespace rlx
