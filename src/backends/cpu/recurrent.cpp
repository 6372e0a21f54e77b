#include "backends/cpu/recurrent.h"

#include "base/checked.h"

namespace rlx::cpu {
namespace {

ScratchNeed floats_per_row(const ScratchQuery& q, std::int64_t floats) {
  std::int64_t rows = 1;
  for (int i = 0; i + 1 < q.in[0].rank; ++i) rows *= q.in[0].dims[i];
  ScratchNeed need;
  need.per_worker = round_up(rows, 16) * floats * 4;
  return need;
}

}  // namespace

bool accepts_causal_conv1d(const KernelQuery& q) {
  const auto taps = q.in[1].dim(0).constant();
  return taps && *taps <= kMaxTaps;
}
bool accepts_recurrent(const KernelQuery&) { return true; }
ScratchNeed ssd_scan_scratch(const ScratchQuery& q) { return floats_per_row(q, 2); }
ScratchNeed gated_delta_scratch(const ScratchQuery& q) { return floats_per_row(q, 4); }

}  // namespace rlx::cpu
