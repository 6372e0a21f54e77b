#include "compiler/passes/precision.h"

#include <map>

#include "compiler/passes/product_weights.h"
#include "ir/rewrite.h"
#include "ir/source.h"
#include "ops/elementwise.h"
#include "ops/quant.h"

namespace rlx {
namespace {

struct Format {
  DType x, panel;
};

// kernels.md, 2.8. K that is no multiple of 32 stays f32; int8 groups are rows of a matrix (QuantizeRows).
Format choose(Activations activations, DType weight, std::int64_t k, int rank, const Backend& backend) {
  const bool whole = k % 32 == 0, groups = whole && rank == 2;
  switch (activations) {
    case Activations::automatic:
      if (is_quantized(weight)) return {groups ? DType::xq8 : DType::f32, weight};
      if (weight == DType::bf16 && backend.has_bf16_units()) return {DType::bf16, weight};
      return {DType::f32, weight};
    case Activations::int8:
      if (!groups) return {DType::f32, weight};
      return {DType::xq8, is_quantized(weight) ? weight : DType::q8_0};
    case Activations::bf16:
      return whole ? Format{DType::bf16, DType::bf16} : Format{DType::f32, weight};
    case Activations::f32:
      return {DType::f32, weight};
  }
  return {DType::f32, weight};
}

// What float weights are quantised to (CompileOptions::quant); others stay.
DType stored_as(DType weight, std::int64_t k, const CompileOptions& options) {
  if (!options.quant || is_quantized(weight)) return weight;
  const DType to = options.quant->weights;
  if (k % info(to).block_elements != 0) return weight;
  if (options.precision.activations == Activations::bf16)
    fail(ErrorCode::unsupported, "quantised weights with bf16 activations: products in bf16 read bf16 weights");
  return to;
}

DType kv_dtype(const PassContext& context, std::int64_t head_dim) {
  const Precision& p = context.options.precision;
  const DType wanted = p.kv                                ? *p.kv
                       : p.activations == Activations::f32 ? DType::f32
                                                           : context.backend.default_kv();
  if (!context.backend.offers_kv(wanted, head_dim))
    fail(ErrorCode::unsupported, "--kv {}: not offered for a head size of {} on {}", name(wanted),
         head_dim, context.backend.device().text());
  return wanted;
}

// One conversion of a value serves all its readers.
class Converter {
 public:
  Value activation(Builder& b, Value x, DType to) {
    if (b.shape(x).dtype == to) return x;
    Value& made = made_[{x.node, x.index, to}];
    if (!made) made = to == DType::xq8 ? b(QuantizeRows{}, x) : b(Cast{.to = to}, x);
    return made;
  }
  Value weight(Builder& b, Value w, DType to) {
    if (b.shape(w).dtype == to) return w;
    Value& made = made_[{w.node, w.index, to}];
    if (!made) made = b(Pack{.dtype = to, .layout = Layout::plain}, w);
    return made;
  }

 private:
  std::map<std::tuple<std::int32_t, std::int32_t, DType>, Value> made_;
};

}  // namespace

bool precision(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph);
  Converter convert;
  return rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    if (s.node.is<State>() && s.node.results[0].kind == ShapeKind::kv) {
      const Shape& shape = s.node.results[0];
      const DType to = kv_dtype(context, *shape.dim(1).constant());
      if (to == shape.dtype) return {};
      return {s.b.state(s.node.name, shape.with(to))};
    }
    const ProductWeights weights = product_weights(s.node);
    // The transforms of WinogradConv would cost bf16 digits, and in f32 it is as fast as PlaneConv in bf16 (ResNet-50
    // in turn: 12.6 and 12.2 ms, within noise).
    if (weights.count == 0 || s.node.is<WinogradConv>() || s.b.shape(s.inputs[0]).dtype != DType::f32) return {};
    const Shape& w = s.b.shape(s.inputs[weights.first]);
    const auto k = w.dim(-1).constant();
    if (!k) return {};
    const Format format =
        choose(context.options.precision.activations, stored_as(w.dtype, *k, context.options), *k,
               s.b.shape(s.inputs[0]).rank(), context.backend);
    if (format.x == DType::f32 && format.panel == w.dtype) return {};
    std::vector<Value> operands(s.inputs.begin(), s.inputs.end());
    operands[0] = convert.activation(s.b, operands[0], format.x);
    for (std::size_t i = weights.first; i < weights.first + weights.count; ++i)
      operands[i] = convert.weight(s.b, operands[i], format.panel);
    return {s.b.graph().add(*s.node.def, s.node.attrs, std::move(operands), s.node.origin)};
  });
}

}  // namespace rlx
