#include "flow/blocks/rope.h"

namespace rlx {

FlowStage rope_frequencies(RopeSpec spec) {
  return [spec = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    const auto n = static_cast<std::int64_t>(spec.inv_freq.size());
    const Value param =
        ctx.synth_param(spec.name + ".inv_freq", spec.inv_freq, Shape({Dim(n)}, DType::f32));
    state.rope.set(spec.name, RopeSlot{param, 2 * n, spec.magnitude, spec.style});
  };
}

}  // namespace rlx
