#include "backends/cpu/region.h"

#include <algorithm>

#include "ops/region.h"

namespace rlx::cpu {

const RegionCode& code_of_region(const void* op) { return region_code(static_cast<const Region*>(op)->program); }

bool accepts_region(const KernelQuery& q) {
  const auto plain = [](const Shape& s) { return s.kind == ShapeKind::tensor && s.layout == Layout::plain; };
  return std::all_of(q.in.begin(), q.in.end(), plain);
}

ScratchNeed region_scratch(const ScratchQuery& q) {
  const RegionCode& code = code_of_region(q.op);
  std::int64_t n = 1;
  for (int i = 0; i < code.inputs; ++i)
    if (q.in[i].rank > 0) n = std::max(n, q.in[i].dims[q.in[i].rank - 1]);
  ScratchNeed need;
  need.per_worker = 4 * (std::int64_t{code.tiles} * kTileFloats + code.rows * region_row_floats(n) +
                         std::int64_t{code.columns} * 16);
  return need;
}

}  // namespace rlx::cpu
