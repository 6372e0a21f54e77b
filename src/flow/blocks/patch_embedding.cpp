#include "flow/blocks/patch_embedding.h"

#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/shape_ops.h"

namespace rlx {
namespace {

/// Patches as rows [batch * patches, channels * patch_height * patch_width].
Value flatten_patches(Builder& b, Value pixels, Dim batch, const PatchEmbeddingSpec& s) {
  const std::int64_t down = s.height / s.patch_height, across = s.width / s.patch_width;
  const Value cut = b(Reshape{{batch, s.channels, down, s.patch_height, across, s.patch_width}}, pixels);
  const Value grouped = b(Transpose{{0, 2, 4, 1, 3, 5}}, cut);
  return b(Reshape{{batch * Dim(down * across), s.channels * s.patch_height * s.patch_width}}, grouped);
}

}  // namespace

FlowStage patch_embedding(PatchEmbeddingSpec spec) {
  return [s = std::move(spec)](FlowCtx& ctx, FlowState& state) {
    Builder& b = ctx.hir();
    const Value pixels = state.inputs.need(ctx, "pixels");
    const Dim batch = ctx.node_shape(pixels).dim(0);
    const std::int64_t size = s.channels * s.patch_height * s.patch_width;
    const Value weight = ctx.load_as(s.weight, {s.hidden, s.channels, s.patch_height, s.patch_width}, {s.hidden, size});
    const Value patches = flatten_patches(b, pixels, batch, s);
    Value x = s.bias.empty() ? b(Linear{}, patches, weight)
                             : b(Linear{.bias = true}, patches, weight, ctx.load_vector(s.bias, s.hidden));
    if (!s.class_token.empty() || !s.positions.empty()) x = b(Reshape{{batch, s.patches(), s.hidden}}, x);
    if (!s.class_token.empty()) {
      const Value token = ctx.load_table(s.class_token, {1, 1, s.hidden}, {1, 1, s.hidden});
      x = b(Concat{.axis = 1}, b(BroadcastTo{{batch, 1, s.hidden}}, token), x);
    }
    if (!s.positions.empty())
      x = b(Add{}, x, ctx.load_table(s.positions, {1, s.rows(), s.hidden}, {s.rows(), s.hidden}));
    if (ctx.node_shape(x).rank() == 3) x = b(Reshape{{batch * Dim(s.rows()), s.hidden}}, x);
    state.hidden.set(x);
  };
}

}  // namespace rlx
