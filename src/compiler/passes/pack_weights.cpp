#include "compiler/passes/pack_weights.h"

#include <map>

#include "compiler/lower.h"
#include "compiler/passes/product_weights.h"
#include "ir/rewrite.h"
#include "ir/source.h"
#include "ops/quant.h"

namespace rlx {
namespace {

// The packed form of a weight; an entry that precision converted is packed from its source in one
// step.
class Packer {
 public:
  Packer(const Rewriter& rewriter, const Backend& backend)
      : rewriter_(rewriter), backend_(backend) {}

  Value operator()(Builder& b, Value old_weight) {
    const Node& made = rewriter_.old().node(old_weight);
    const Shape& shape = rewriter_.old().shape(old_weight);
    const Value source = made.is<Pack>() ? made.inputs[0] : old_weight;
    const Node& stored = rewriter_.old().node(source);
    const Node& param = stored.is<TransposeWeight>() ? rewriter_.old().node(stored.inputs[0]) : stored;
    const bool constant_matrix = stored.is<Constant>() && shape.rank() == 2;
    if ((!param.is<Param>() && !constant_matrix) || shape.layout != Layout::plain || !shape.dim(-1).is_constant())
      return {};
    if (!backend_.can_pack(param.results[0].dtype, shape.dtype, *shape.dim(-1).constant()))
      return {};
    Value& packed = packed_[{source.node, shape.dtype}];
    if (!packed)
      packed = b(Pack{.dtype = shape.dtype, .layout = Layout::p16}, rewriter_.now(source));
    return packed;
  }

 private:
  const Rewriter& rewriter_;
  const Backend& backend_;
  std::map<std::pair<std::int32_t, DType>, Value> packed_;
};

}  // namespace

bool pack_weights(Graph& graph, const PassContext& context) {
  if (!context.backend.packs()) return false;
  Rewriter rewriter(graph);
  Packer pack(rewriter, context.backend);
  return rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    const ProductWeights weights = product_weights(s.node);
    if (weights.count == 0) return {};
    // Its body takes the matrices of the weights apart again.
    if (s.node.is<WinogradConv>() && asks_for_common(context.options.dispatch, WinogradConv::name)) return {};
    std::vector<Value> operands(s.inputs.begin(), s.inputs.end());
    for (std::size_t i = weights.first; i < weights.first + weights.count; ++i) {
      const Value packed = pack(s.b, s.node.inputs[i]);
      if (!packed) return {};
      operands[i] = packed;
    }
    const Value made = s.b.graph().add(*s.node.def, s.node.attrs, std::move(operands), s.node.origin);
    Rewriter::Answer answer;
    for (std::size_t k = 0; k < s.node.results.size(); ++k) answer.push_back({made.node, static_cast<std::int32_t>(k)});
    return answer;
  });
}

}  // namespace rlx
