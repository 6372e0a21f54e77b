#include "flow/blocks/projection.h"

#include "ops/matmul.h"

namespace rlx {

Value project_rows(FlowCtx& ctx, Value x, const LinearSpec& s, FlowCtx::RowRange rows) {
  const Value weight = ctx.load_rows(s.weight, s.out, s.in, rows);
  if (s.bias.empty()) return ctx.hir()(Linear{.act = s.act}, x, weight);
  return ctx.hir()(Linear{.act = s.act, .bias = true}, x, weight, vector_part(ctx, s.bias, s.out, rows));
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

}  // namespace rlx
