// Count of heap allocations of this program, for `rlx run --stats`.
#pragma once

#include <cstdint>

namespace rlx::cli {

/// Calls of operator new since the start, by all threads.
std::int64_t allocation_count();

}  // namespace rlx::cli
