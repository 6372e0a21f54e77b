#include "compiler/dispatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "compiler/layer_bodies.h"

namespace rlx {

std::string_view name(DispatchKind kind) {
  constexpr std::string_view names[] = {"native",    "common",      "rewritten",
                                        "reference", "unsupported", "view"};
  static_assert(std::size(names) == kDispatchKinds);
  return names[static_cast<std::size_t>(kind)];
}

std::string DispatchRow::text() const {
  return fmt::format("{}: {} is {}: {}", node, op, rlx::name(kind), reason);
}

std::int64_t DispatchReport::count(DispatchKind kind) const {
  return std::count_if(rows.begin(), rows.end(),
                       [&](const DispatchRow& r) { return r.kind == kind; });
}

std::string DispatchReport::text() const {
  std::map<std::string, std::map<DispatchKind, std::int64_t>> by_op;
  std::map<std::string, std::map<std::string, std::int64_t>> kernels;
  for (const DispatchRow& r : rows) {
    ++by_op[r.op][r.kind];
    if (!r.kernel.empty()) ++kernels[r.op][r.kernel];
  }
  constexpr DispatchKind columns[] = {DispatchKind::native, DispatchKind::common, DispatchKind::rewritten,
                                      DispatchKind::reference, DispatchKind::view};
  std::string text = fmt::format("{:<20}", "op");
  for (const DispatchKind k : columns) text += fmt::format(" {:>9}", name(k));
  text += "\n";
  for (auto& [op, kinds] : by_op) {
    text += fmt::format("{:<20}", op);
    for (const DispatchKind k : columns) text += fmt::format(" {:>9}", kinds[k]);
    text += "\n";
    for (const auto& [kernel, n] : kernels[op]) text += fmt::format("  {} x {}\n", kernel, n);
  }
  text += layers_text(layer_bodies(*this));
  for (const DispatchRow& r : rows)
    if (r.kind == DispatchKind::common || r.kind == DispatchKind::reference)
      text += r.text() + "\n";
  return text;
}

std::string DispatchReport::json() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const DispatchRow& r : rows)
    list.push_back({{"node", r.node},
                    {"op", r.op},
                    {"kind", name(r.kind)},
                    {"kernel", r.kernel},
                    {"reason", r.reason}});
  return list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace rlx
