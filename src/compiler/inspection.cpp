#include "compiler/inspection.h"

#include <algorithm>

#include "base/checked.h"
#include "compiler/memory_plan.h"
#include "compiler/phase.h"
#include "ir/source.h"

namespace rlx {
namespace {

std::string attributes_text(const OpDef& def, const AttrBlob& attrs) {
  const std::string text = def.print(attrs);
  return text.starts_with(" ") ? text.substr(1) : text;
}

// Draws the data flow of a flat program: who wrote each operand last when a call reads it.
class ProgramReader {
 public:
  explicit ProgramReader(const Program& program) : program_(program) {
    graph_.stage = "lir";
    writer_.resize(program.operands.size());
  }

  InspectedGraph run() {
    for (std::size_t c = 0; c < program_.calls.size(); ++c) add_call(static_cast<std::int32_t>(c));
    for (const BoundaryEntry& o : program_.outputs) graph_.outputs.push_back({o.name, producer(o.operand)});
    return std::move(graph_);
  }

 private:
  const Operand& operand(std::int32_t o) const { return program_.operands[static_cast<std::size_t>(o)]; }
  Value& writer(std::int32_t o) { return writer_[static_cast<std::size_t>(o)]; }

  // A view has no writer of its own: that of the buffer it reads.
  Value producer(std::int32_t o) {
    if (writer(o)) return writer(o);
    if (operand(o).place == Place::arena && operand(o).index != o && writer(operand(o).index))
      return writer(operand(o).index);
    return add_source(o);
  }

  Value add_source(std::int32_t o) {
    InspectedNode n;
    const Operand& of = operand(o);
    const auto k = static_cast<std::size_t>(of.index);
    n.source = true;
    n.phase = Phase::prologue;
    n.results = {of.shape};
    n.op = "value";
    if (of.place == Place::input) n.op = "input", n.name = program_.inputs[k].name;
    if (of.place == Place::state) n.op = "state", n.name = program_.states[k].name;
    if (of.place == Place::weight) n.op = "weight", n.name = program_.weights[k].param;
    graph_.nodes.push_back(std::move(n));
    return writer(o) = {static_cast<std::int32_t>(graph_.nodes.size()) - 1, 0};
  }

  void add_call(std::int32_t c) {
    const Call& call = program_.calls[static_cast<std::size_t>(c)];
    InspectedNode n;
    n.op = call.def->name;
    n.attributes = attributes_text(*call.def, call.attrs);
    n.origin = call.origin;
    n.kernel = call.kernel != nullptr ? std::string(call.kernel->name) : "reference";
    n.phase = call.phase;
    n.call = c;
    for (const std::int32_t o : call.in) n.inputs.push_back(producer(o));
    for (const std::int32_t o : call.out) n.results.push_back(operand(o).shape);
    const auto id = static_cast<std::int32_t>(graph_.nodes.size());
    graph_.nodes.push_back(std::move(n));
    for (std::size_t k = 0; k < call.out.size(); ++k) {
      const std::int32_t o = call.out[k];
      writer(o) = {id, static_cast<std::int32_t>(k)};
      // In place: whoever reads the buffer by its first name reads this result.
      if (operand(o).place == Place::arena) writer(operand(o).index) = writer(o);
    }
  }

  const Program& program_;
  InspectedGraph graph_;
  std::vector<Value> writer_;
};

void read_plan(const Program& program, const Plan& plan, const InspectedGraph& lir, InspectedVariant& v) {
  std::vector<std::int32_t> node_of(program.operands.size(), -1);
  for (std::size_t i = 0; i < lir.nodes.size(); ++i) {
    if (lir.nodes[i].call < 0) continue;
    for (const std::int32_t o : program.calls[static_cast<std::size_t>(lir.nodes[i].call)].out) {
      const Operand& operand = program.operands[static_cast<std::size_t>(o)];
      const auto root = static_cast<std::size_t>(operand.place == Place::arena ? operand.index : o);
      if (node_of[root] < 0) node_of[root] = static_cast<std::int32_t>(i);
    }
  }
  std::vector<std::int64_t> bytes(program.operands.size(), 0);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const Operand& o = program.operands[i];
    if (o.place != Place::arena) continue;
    std::int64_t& root = bytes[static_cast<std::size_t>(o.index)];
    root = std::max(root, plan.bytes[i]);
  }
  v.live.assign(program.calls.size(), 0);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const Operand& o = program.operands[i];
    if (o.place != Place::arena || o.index != static_cast<std::int32_t>(i) || bytes[i] == 0 || o.last < o.first)
      continue;
    v.buffers.push_back({plan.offsets[i], bytes[i], o.first, o.last, node_of[i]});
    for (auto c = static_cast<std::size_t>(o.first); c < v.live.size() && c <= static_cast<std::size_t>(o.last); ++c)
      v.live[c] += round_up(bytes[i], program.alignment);
  }
  std::vector<LiveBuffer> live;
  for (const InspectedBuffer& b : v.buffers) live.push_back({round_up(b.bytes, program.alignment), b.first, b.last});
  v.arena_bound = lower_bound(live);
  v.arena_bytes = plan.arena_bytes;
  v.scratch_per_worker = plan.scratch_per_worker;
  v.shared_bytes = plan.shared_bytes;
  for (const Plan::CallPlan& c : plan.calls) v.barrier_after.push_back(c.barrier_after);
}

std::vector<OpCost> lir_costs(const Program& program, const InspectedGraph& lir, const DimBinding& sizes,
                              std::int64_t context) {
  std::vector<OpCost> costs(lir.nodes.size());
  for (std::size_t i = 0; i < costs.size(); ++i)
    if (lir.nodes[i].call >= 0)
      costs[i] = call_cost(program, static_cast<std::size_t>(lir.nodes[i].call), sizes, context);
  return costs;
}

}  // namespace

InspectedGraph inspected(const Graph& graph) {
  InspectedGraph out;
  out.stage = name(graph.stage);
  out.outputs.assign(graph.outputs().begin(), graph.outputs().end());
  const PhaseSchedule phases = derive_phases(graph);
  const std::vector<bool> made = made_at_load(graph);
  for (std::size_t i = 0; i < made.size(); ++i) {
    const Node& n = graph.nodes()[i];
    InspectedNode node;
    node.op = n.def->name;
    node.name = n.name;
    node.attributes = attributes_text(*n.def, n.attrs);
    node.origin = n.origin;
    node.inputs = n.inputs;
    node.results = n.results;
    node.phase = phases.get(static_cast<std::int32_t>(i));
    node.source = made[i] || n.def->has(Trait::source);
    out.nodes.push_back(std::move(node));
  }
  return out;
}

InspectedGraph inspected(const Program& program) { return ProgramReader(program).run(); }

DimBinding complete(const Graph& graph, DimBinding sizes) {
  for (const Symbol s : collect_symbols(graph))
    if (!sizes.get(s)) sizes.set(s, 1);
  return sizes;
}

std::vector<std::string> group_path(std::string_view origin) {
  std::vector<std::string> path;
  for (std::size_t from = 0; from < origin.size();) {
    const std::size_t dot = std::min(origin.find('.', from), origin.size());
    const std::string_view part = origin.substr(from, dot - from);
    const bool number =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    std::string whole(origin.substr(0, dot));
    if (number && !path.empty())
      path.back() = std::move(whole);
    else
      path.push_back(std::move(whole));
    from = dot + 1;
  }
  return path;
}

Inspection inspect(const Graph& given, const CompileResult& compiled, std::span<const DimBinding> sizes,
                   const SpecializeOptions& options) {
  const Program& program = *compiled.lir.program;
  Inspection all;
  all.name = given.name;
  all.threads = options.threads;
  all.context = options.max_context;
  all.dispatch = compiled.dispatch;
  all.fusion = compiled.fusion;
  all.passes = compiled.passes;
  if (given.stage == Stage::hir) all.graphs.push_back(inspected(given));
  all.graphs.push_back(inspected(*compiled.mir));
  all.graphs.push_back(inspected(program));
  for (const Call& c : program.calls)
    all.calls.push_back(c.kernel != nullptr ? std::string(c.kernel->name) : fmt::format("reference {}", c.def->name));
  for (const DimBinding& wanted : sizes) {
    InspectedVariant v;
    v.sizes = complete(given, wanted);
    const Plan plan = specialize(program, v.sizes, options);
    if (given.stage == Stage::hir) v.costs.push_back(node_costs(given, v.sizes, options.max_context));
    v.costs.push_back(node_costs(*compiled.mir, v.sizes, options.max_context));
    v.costs.push_back(lir_costs(program, all.graphs.back(), v.sizes, options.max_context));
    read_plan(program, plan, all.graphs.back(), v);
    all.variants.push_back(std::move(v));
  }
  return all;
}

}  // namespace rlx
