#include "compiler/cost.h"

#include <algorithm>

#include "device/view.h"
#include "ir/source.h"

namespace rlx {
namespace {

double count_of(const Shape& shape, const DimBinding& sizes) {
  double n = 1;
  for (const Dim d : shape.dims()) n *= static_cast<double>(d.evaluate(sizes));
  return n;
}

// Blocks divide their rows in files; a packed or a cut one is counted by its share.
double bytes_of(const Shape& shape, const DimBinding& sizes) {
  const DTypeInfo& t = info(shape.dtype);
  return count_of(shape, sizes) * static_cast<double>(t.block_bytes) / static_cast<double>(t.block_elements);
}

double last_dim(const Shape& shape, const DimBinding& sizes) {
  return shape.rank() == 0 ? 1.0 : static_cast<double>(shape.dim(-1).evaluate(sizes));
}

bool is_product(const OpDef& def) { return def.has(Trait::compute) || def.has(Trait::composite); }

// What a product does with one weight: [out, in], a list of such matrices of which a row takes one, or filters.
struct ProductCost {
  double bytes = 0, ops = 0;
};

ProductCost product_cost(const OpDef& def, const Shape& weight, const Shape* x, double results, double rows,
                         const DimBinding& sizes) {
  const double bytes = bytes_of(weight, sizes), all = count_of(weight, sizes);
  if (weight.rank() < 2) return {bytes, 0};
  const double first = std::max(static_cast<double>(weight.dim(0).evaluate(sizes)), 1.0);
  if (def.id == op_id("conv")) return {bytes, 2 * results * all / first};
  // 16 products for the 4 places of a tile.
  if (def.id == op_id("winograd_conv")) return {bytes, 8 * results * all / first};
  if (def.id == op_id("conv_transposed")) return {bytes, x == nullptr ? 0 : 2 * count_of(*x, sizes) * all / first};
  if (!def.name.starts_with("expert_")) return {bytes, 2 * rows * all};
  return {bytes / first * std::min(first, rows), 2 * rows * all / first};
}

}  // namespace

OpCost& OpCost::operator+=(const OpCost& o) {
  bytes += o.bytes;
  weight_bytes += o.weight_bytes;
  ops += o.ops;
  return *this;
}

OpCost op_cost(const OpDef& def, std::span<const CostOperand> in, std::span<const Shape> out, const DimBinding& sizes,
               std::int64_t context) {
  OpCost cost;
  double given = 0, elements = 0;
  for (const Shape& s : out)
    if (!s.is_state()) {
      given += bytes_of(s, sizes);
      elements = std::max(elements, count_of(s, sizes));
    }
  const Shape* first = out.empty() ? nullptr : &out[0];
  const double results = first == nullptr || first->is_state() ? 0 : count_of(*first, sizes);
  const double rows = results == 0 ? 0 : results / std::max(last_dim(*first, sizes), 1.0);
  int values = 0;
  const Shape* value = nullptr;
  for (const CostOperand& o : in) {
    if (o.shape.kind == ShapeKind::kv) {
      const double token = 2 * bytes_of(o.shape, sizes);  // a key and a value
      cost.bytes += token * (is_product(def) ? static_cast<double>(context) : rows);
      if (is_product(def)) cost.ops += 4 * results * static_cast<double>(context);
    } else if (o.shape.is_state()) {
      continue;
    } else if (o.param) {
      const ProductCost product =
          is_product(def) ? product_cost(def, o.shape, value, results, rows, sizes)
                          : ProductCost{std::min(bytes_of(o.shape, sizes), given), 0};
      cost.weight_bytes += product.bytes;
      cost.ops += product.ops;
    } else {
      cost.bytes += bytes_of(o.shape, sizes);
      elements = std::max(elements, count_of(o.shape, sizes));
      if (++values == 1) value = &o.shape;
    }
  }
  // A product of two values contracts the last axis of the first.
  if (is_product(def) && cost.ops == 0 && values > 1) cost.ops = 2 * results * last_dim(*value, sizes);
  if (cost.ops == 0) cost.ops = elements;
  cost.bytes += cost.weight_bytes + given;
  return cost;
}

std::vector<bool> made_at_load(const Graph& graph) {
  std::vector<bool> made(graph.nodes().size(), false);
  for (std::size_t i = 0; i < made.size(); ++i) {
    const Node& n = graph.nodes()[i];
    made[i] = n.is<Param>() ||
              (!n.def->has(Trait::source) && !n.inputs.empty() &&
               std::all_of(n.inputs.begin(), n.inputs.end(),
                           [&](Value v) { return made[static_cast<std::size_t>(v.node)]; }));
  }
  return made;
}

std::vector<OpCost> node_costs(const Graph& graph, const DimBinding& sizes, std::int64_t context) {
  const std::vector<bool> made = made_at_load(graph);
  std::vector<OpCost> costs(made.size());
  std::vector<CostOperand> in;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const Node& n = graph.nodes()[i];
    if (n.def->has(Trait::source) || n.def->has(Trait::view) || made[i]) continue;
    in.clear();
    for (const Value v : n.inputs) in.push_back({graph.shape(v), made[static_cast<std::size_t>(v.node)]});
    costs[i] = op_cost(*n.def, in, n.results, sizes, context);
  }
  return costs;
}

OpCost call_cost(const Program& program, std::size_t call, const DimBinding& sizes, std::int64_t context) {
  const Call& c = program.calls[call];
  std::vector<CostOperand> in;
  std::vector<Shape> out;
  for (const std::int32_t o : c.in) {
    const Operand& operand = program.operands[static_cast<std::size_t>(o)];
    in.push_back({operand.shape, operand.place == Place::weight});
  }
  for (const std::int32_t o : c.out) out.push_back(program.operands[static_cast<std::size_t>(o)].shape);
  return op_cost(*c.def, in, out, sizes, context);
}

}  // namespace rlx
