#include "flow/blocks/projection.h"

#include "ops/matmul.h"

namespace rlx {

Value project_rows(FlowCtx& ctx, Value x, const StoredLinear& w, FlowCtx::RowRange rows, Act act) {
  const Value weight = ctx.load_rows(w.weight, w.out, w.in, rows);
  if (w.bias.empty()) return ctx.hir()(Linear{.act = act}, x, weight);
  return ctx.hir()(Linear{.act = act, .bias = true}, x, weight,
                   vector_part(ctx, w.bias, w.out, rows));
}

Value vector_part(FlowCtx& ctx, const std::string& key, std::int64_t n, FlowCtx::RowRange part) {
  std::vector<float> values = ctx.read_values(key, {n});
  if (!values.empty()) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(part.first);
    values = std::vector<float>(first, first + static_cast<std::ptrdiff_t>(part.count));
  }
  return ctx.synth_param(fmt::format("{}[{}:{}]", key, part.first, part.first + part.count),
                         std::move(values), Shape({part.count}, DType::f32));
}

Value project(FlowCtx& ctx, Value x, const StoredLinear& w, Act act) {
  const Value weight = ctx.load_matrix(w.weight, w.out, w.in);
  if (w.bias.empty()) return ctx.hir()(Linear{.act = act}, x, weight);
  return ctx.hir()(Linear{.act = act, .bias = true}, x, weight, ctx.load_vector(w.bias, w.out));
}

}  // namespace rlx
