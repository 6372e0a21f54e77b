// How many threads a session works with.
#pragma once

namespace rlx {

/// `asked` when it is above 0, else RLX_THREADS, else one for each processor of affinity() (affinity.h), else the
/// physical cores that this process may use. Error(usage): a number outside 1 to 1024, or more than affinity() has.
int resolve_threads(int asked);

}  // namespace rlx
