#include "flow/blocks/position_embedding.h"

#include "ops/elementwise.h"
#include "ops/index.h"

namespace rlx {

FlowStage position_embedding(PositionEmbeddingSpec spec) {
  return [s = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    const Value x = state.hidden.need(ctx);
    const Value table = ctx.load_matrix(s.weight, s.count, s.hidden);
    const Value rows = ctx.hir()(Embedding{}, table, state.inputs.need(ctx, s.input));
    state.hidden.set(ctx.hir()(Add{}, x, rows));
  };
}

}  // namespace rlx
