#include "compiler/fusion_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace rlx {

std::map<std::string, std::int64_t> FusionReport::counts() const {
  std::map<std::string, std::int64_t> counts;
  for (const FusedNode& f : fused) ++counts[f.op];
  return counts;
}

std::string FusionReport::text() const {
  std::string text = fmt::format("{} nodes became {}\n", nodes_before, nodes_after);
  std::map<std::pair<std::string, std::string>, std::int64_t> made;
  for (const FusedNode& f : fused) ++made[{f.pass, f.op}];
  for (const auto& [what, n] : made) text += fmt::format("{:>5} {:<20} by {}\n", n, what.second, what.first);
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> missed;
  for (const NearMiss& m : near_misses) missed[{m.pass, m.reason}].push_back(m.origin);
  for (const auto& [what, places] : missed)
    text += fmt::format("not fused by {}: {} ({} {}, first {})\n", what.first, what.second, places.size(),
                        places.size() == 1 ? "place" : "places", places.front());
  return text;
}

std::string FusionReport::json() const {
  nlohmann::ordered_json misses = nlohmann::ordered_json::array();
  for (const NearMiss& m : near_misses)
    misses.push_back({{"pass", m.pass}, {"origin", m.origin}, {"reason", m.reason}});
  const nlohmann::ordered_json all = {
      {"nodes_before", nodes_before}, {"nodes_after", nodes_after}, {"fused", counts()}, {"near_misses", misses}};
  return all.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace rlx
