#include "flow/blocks/embedding.h"

#include "ops/index.h"

namespace rlx {

FlowStage token_embedding(EmbeddingSpec spec) {
  return [spec = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    const Value tokens = state.inputs.need(ctx, "tokens");
    const Value table = ctx.load_matrix(spec.weight, spec.vocab, spec.hidden);
    state.embedding.set(table);
    state.hidden.set(ctx.hir()(Embedding{.scale = spec.scale}, table, tokens));
  };
}

}  // namespace rlx
