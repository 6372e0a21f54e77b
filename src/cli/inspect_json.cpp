#include "cli/inspect_json.h"

#include <map>
#include <nlohmann/json.hpp>

namespace rlx::cli {

using nlohmann::ordered_json;

namespace {

std::string attributes(const OpDef& def, const AttrBlob& attrs) {
  const std::string text = def.print(attrs);
  return text.starts_with(" ") ? text.substr(1) : text;
}

std::string_view name_of(Place place) {
  constexpr std::string_view names[] = {"input", "weight", "state", "arena"};
  return names[static_cast<std::size_t>(place)];
}

}  // namespace

ordered_json graph_json(const Graph& graph) {
  ordered_json nodes = ordered_json::array();
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& n = graph.nodes()[i];
    ordered_json inputs = ordered_json::array(), results = ordered_json::array();
    for (const Value v : n.inputs) inputs.push_back({v.node, v.index});
    for (const Shape& s : n.results) results.push_back(s.text());
    ordered_json node = {{"id", i}, {"op", n.def->name}};
    if (!n.name.empty()) node["name"] = n.name;
    node["attributes"] = attributes(*n.def, n.attrs);
    node["inputs"] = std::move(inputs);
    node["results"] = std::move(results);
    node["origin"] = n.origin;
    nodes.push_back(std::move(node));
  }
  ordered_json outputs = ordered_json::array();
  for (const Output& o : graph.outputs())
    outputs.push_back({{"name", o.name}, {"value", {o.value.node, o.value.index}}});
  return {{"name", graph.name},
          {"stage", name(graph.stage)},
          {"nodes", std::move(nodes)},
          {"outputs", std::move(outputs)}};
}

ordered_json program_json(const Program& program, const Plan& plan) {
  ordered_json sizes = ordered_json::object(), calls = ordered_json::array(),
               operands = ordered_json::array();
  for (const auto& [symbol, size] : plan.upper.sizes()) sizes[std::string(symbol.name())] = size;
  for (std::size_t i = 0; i < program.operands.size(); ++i) {
    const Operand& o = program.operands[i];
    operands.push_back({{"type", o.shape.text()},
                        {"place", name_of(o.place)},
                        {"index", o.index},
                        {"offset", plan.offsets[i]},
                        {"bytes", plan.bytes[i]}});
  }
  for (std::size_t i = 0; i < program.calls.size(); ++i) {
    const Call& c = program.calls[i];
    calls.push_back(
        {{"op", c.def->name},
         {"kernel", c.kernel != nullptr ? ordered_json(c.kernel->name) : ordered_json(nullptr)},
         {"phase", name(c.phase)},
         {"attributes", attributes(*c.def, c.attrs)},
         {"in", c.in},
         {"out", c.out},
         {"barrier", plan.calls[i].barrier_after},
         {"origin", c.origin}});
  }
  return {{"name", program.name},
          {"sizes", std::move(sizes)},
          {"threads", plan.threads},
          {"arena_bytes", plan.arena_bytes},
          {"scratch_per_worker", plan.scratch_per_worker},
          {"shared_bytes", plan.shared_bytes},
          {"calls", std::move(calls)},
          {"operands", std::move(operands)}};
}

ordered_json weight_types(const LoadedModel& model) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> by_type;
  for (const ModelParam& p : model.model.params) {
    if (p.owned) continue;
    auto& [count, bytes] = by_type[std::string(name(p.weight.dtype))];
    ++count;
    bytes += p.stored_bytes();
  }
  ordered_json json = ordered_json::object();
  for (const auto& [type, sizes] : by_type)
    json[type] = {{"tensors", sizes.first}, {"bytes", sizes.second}};
  return json;
}

}  // namespace rlx::cli
