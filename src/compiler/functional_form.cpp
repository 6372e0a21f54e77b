#include "compiler/functional_form.h"

#include <limits>
#include <map>

#include "base/error.h"
#include "ir/rewrite.h"
#include "ir/source.h"
#include "ops/arithmetic.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/grad_context.h"
#include "ops/product.h"
#include "ops/reduction.h"
#include "ops/shape_ops.h"

namespace rlx {
namespace {

constexpr int kMaxNesting = 8;  // of blocks in blocks: the ops decide it

Value both(Builder& b, Value x, Value y) { return y ? b(Minimum{}, x, y) : x; }

// Blocks, and fused state ops, become their bodies.
void expand_bodies(Graph& graph) {
  for (int i = 0; i < kMaxNesting; ++i) {
    Rewriter rewriter(graph);
    const bool changed = rewriter.run([](const Rewriter::Site& s) -> Rewriter::Answer {
      const OpDef& def = *s.node.def;
      if (def.decompose == nullptr || !(def.has(Trait::composite) || def.has(Trait::state))) return {};
      return expand(s.node, s.inputs, s.b);
    });
    if (!changed) return;
  }
}

// Builds the functional graph node by node.
class Functional {
 public:
  explicit Functional(const Graph& from) : from_(from), to_(from.name, from.stage), b_(to_) {
    values_.resize(from.nodes().size());
  }

  Graph run() {
    for (std::size_t i = 0; i < from_.nodes().size(); ++i) convert(static_cast<std::int32_t>(i));
    std::vector<Output> outputs;
    for (const Output& o : from_.outputs())
      if (!from_.shape(o.value).is_state()) outputs.push_back({o.name, now(o.value)});
    to_.set_outputs(std::move(outputs));
    drop_dead(to_);
    return without_idle_inputs(to_);
  }

 private:
  struct Rows {
    Value k, v;
  };

  Value now(Value v) const { return values_[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)]; }

  void convert(std::int32_t i) {
    const Node& n = from_.node(i);
    auto& mine = values_[static_cast<std::size_t>(i)];
    mine.resize(n.results.size());
    b_.set_origin(n.origin);
    if (n.def->has(Trait::source)) {
      if (!n.results[0].is_state()) mine[0] = to_.import_node(from_, n, {});
    } else if (n.is<KvAppend>()) {
      appended_[i] = {now(n.inputs[1]), now(n.inputs[2])};
    } else if (const auto attention = n.as<Attention>()) {
      mine[0] = attend(n, i, *attention);
    } else if (n.def->has(Trait::state)) {
      fail(ErrorCode::unsupported, "functional form: {} keeps a state and has no form without it", node_text(n, i));
    } else {
      std::vector<Value> inputs;
      for (Value v : n.inputs) inputs.push_back(now(v));
      const Value first = to_.import_node(from_, n, std::move(inputs));
      for (std::size_t k = 0; k < mine.size(); ++k) mine[k] = b_.result(first, static_cast<int>(k));
    }
  }

  Value attend(const Node& n, std::int32_t i, const Attention& op) {
    const auto rows = appended_.find(n.inputs[1].node);
    if (rows == appended_.end())
      fail(ErrorCode::unsupported, "functional form: {} reads a cache that this step does not write", node_text(n, i));
    const Shape& cache = from_.shape(n.inputs[1]);
    const auto head_dim = static_cast<std::int32_t>(*cache.dim(1).constant());
    return causal_attention(b_, op, head_dim, {now(n.inputs[0]), rows->second.k, rows->second.v},
                            mask(op.window));
  }

  Value mask(std::int32_t window) {
    Value& made = masks_[window];
    if (!made) {
      const Value positions = to_.find_source("positions");
      if (!positions)
        fail(ErrorCode::invalid_argument, "functional form: {}: expected an input named \"positions\"", from_.name);
      made = causal_mask(b_, positions, window);
    }
    return made;
  }

  static Graph without_idle_inputs(const Graph& graph) {
    const auto uses = graph.uses();
    Graph kept(graph.name, graph.stage);
    std::vector<std::int32_t> places(graph.nodes().size(), -1);
    const auto moved = [&](Value v) { return Value{places[static_cast<std::size_t>(v.node)], v.index}; };
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      const Node& n = graph.nodes()[i];
      if (n.is<Input>() && uses[i][0] == 0) continue;
      std::vector<Value> inputs;
      for (Value v : n.inputs) inputs.push_back(moved(v));
      places[i] = kept.import_node(graph, n, std::move(inputs)).node;
    }
    std::vector<Output> outputs;
    for (const Output& o : graph.outputs()) outputs.push_back({o.name, moved(o.value)});
    kept.set_outputs(std::move(outputs));
    return kept;
  }

  const Graph& from_;
  Graph to_;
  Builder b_;
  std::vector<std::vector<Value>> values_;
  std::map<std::int32_t, Rows> appended_;  // by KvAppend node
  std::map<std::int32_t, Value> masks_;    // by window
};

}  // namespace

Value causal_mask(Builder& b, Value positions, std::int32_t window) {
  const Dim rows = b.shape(positions).dim(0);
  const Value i = b(Iota{.dims = {rows, 1}}), j = b(Iota{.dims = {1, rows}, .axis = 1});
  const Value start = b(Sub{}, b(Iota{.dims = {rows}}), positions);
  const Value same = b(Compare{.relation = Relation::eq}, b(Reshape{.dims = {rows, 1}}, start),
                       b(Reshape{.dims = {1, rows}}, start));
  Value recent;
  if (window > 0) {
    const Value oldest = b(Iota{.dims = {rows, 1}, .start = std::int64_t{1} - window});
    recent = b(Compare{.relation = Relation::ge}, j, oldest);
  }
  return both(b, both(b, b(Compare{.relation = Relation::le}, j, i), same), recent);
}

Value causal_attention(Builder& b, const Attention& op, std::int32_t head_dim, const AttentionRows& in, Value mask) {
  const auto [q, k, v] = in;
  const Dim rows = b.shape(q).dim(0);
  const std::int64_t heads = op.heads, kv = *b.shape(k).dim(1).constant() / head_dim, group = heads / kv;
  const auto by_head = [&](Value x) {  // [kv, rows, d]
    return b(Transpose{.axes = {1, 0, 2}}, b(Reshape{.dims = {rows, kv, head_dim}}, x));
  };
  const Value grouped = b(Transpose{.axes = {1, 2, 0, 3}}, b(Reshape{.dims = {rows, kv, group, head_dim}}, q));
  const Value queries = b(Reshape{.dims = {kv, rows * group, head_dim}}, grouped);
  Value scores = b(BatchedMatmul{.transpose_b = true}, queries, by_head(k));
  scores = b(Scale{.factor = op.scale}, b(Reshape{.dims = {heads, rows, rows}}, scores));
  if (op.softcap > 0.0f) scores = b(Softcap{.cap = op.softcap}, scores);
  const Value never = b(Full{.dims = {1, 1, 1}, .value = -std::numeric_limits<float>::infinity()});
  const Value shares = b(Softmax{}, b(Where{}, mask, scores, never));
  const Value mixed = b(BatchedMatmul{}, b(Reshape{.dims = {kv, rows * group, rows}}, shares), by_head(v));
  const Value back = b(Transpose{.axes = {2, 0, 1, 3}}, b(Reshape{.dims = {kv, group, rows, head_dim}}, mixed));
  return b(Reshape{.dims = {rows, heads * head_dim}}, back);
}

Graph functional_form(const Graph& graph) {
  Graph expanded = graph;
  expand_bodies(expanded);
  return Functional(expanded).run();
}

}  // namespace rlx
