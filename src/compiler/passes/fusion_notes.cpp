#include "compiler/passes/fusion_notes.h"

#include <algorithm>

namespace rlx {

std::string report_label(const Node& node, std::int32_t index) {
  return node.origin.empty() ? fmt::format("%{}", index) : node.origin;
}

void FusionNotes::fused(std::string_view op, const Node& at, std::int32_t index) const {
  if (report_ != nullptr)
    report_->fused.push_back({std::string(pass_), std::string(op), report_label(at, index)});
}

void FusionNotes::add_miss(const Node& at, std::int32_t index, std::string reason) const {
  NearMiss miss{std::string(pass_), report_label(at, index), std::move(reason)};
  // A pass that runs in rounds meets the same place again.
  const auto same = [&](const NearMiss& m) {
    return m.pass == miss.pass && m.origin == miss.origin && m.reason == miss.reason;
  };
  auto& all = report_->near_misses;
  if (std::none_of(all.begin(), all.end(), same)) all.push_back(std::move(miss));
}

std::string shared_reason(const Graph& graph, Value v) {
  const std::string_view op = graph.node(v).def->name;
  for (const Output& o : graph.outputs())
    if (o.value == v) return fmt::format("the {} is the output \"{}\"", op, o.name);
  int readers = 0;
  for (const Node& n : graph.nodes())
    readers += static_cast<int>(std::count(n.inputs.begin(), n.inputs.end(), v));
  return readers == 1 ? std::string() : fmt::format("the {} has {} readers", op, readers);
}

}  // namespace rlx
