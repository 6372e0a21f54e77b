// How many threads a session works with.
#pragma once

namespace rlx {

/// `asked` when it is above 0, else RLX_THREADS, else the physical cores that this process may use. Error(usage): a
/// number outside 1 to 1024.
int resolve_threads(int asked);

}  // namespace rlx
