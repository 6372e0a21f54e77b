#include "compiler/layer_bodies.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace rlx {
namespace {

struct LayerStage {
  std::string_view layer, stage;
};

// "%12 layers.3.self_attention" -> {"layers.3", "self_attention"}; an empty layer for another origin.
LayerStage stage_of(std::string_view node) {
  const std::string_view origin = node.substr(std::min(node.rfind(' ') + 1, node.size()));
  const std::size_t first = origin.find('.');
  if (first == std::string_view::npos) return {};
  const std::size_t second = std::min(origin.find('.', first + 1), origin.size());
  const std::string_view number = origin.substr(first + 1, second - first - 1);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (number.empty() || number.size() > 9 || !std::all_of(number.begin(), number.end(), is_digit)) return {};
  return {origin.substr(0, second), origin.substr(std::min(second + 1, origin.size()))};
}

// "layers.0-3, layers.7" for consecutive numbers.
std::string ranges(const std::vector<std::string>& layers) {
  std::string text;
  for (std::size_t i = 0; i < layers.size();) {
    const std::size_t dot = layers[i].rfind('.');
    const auto number = [&](std::size_t k) { return std::stoll(layers[k].substr(layers[k].rfind('.') + 1)); };
    std::size_t last = i;
    while (last + 1 < layers.size() && layers[last + 1].substr(0, dot) == layers[i].substr(0, dot) &&
           number(last + 1) == number(last) + 1)
      ++last;
    text += (text.empty() ? "" : ", ") + layers[i];
    if (last > i) text += fmt::format("-{}", number(last));
    i = last + 1;
  }
  return text;
}

}  // namespace

std::vector<LayerBody> layer_bodies(const DispatchReport& report) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>, std::less<>> calls;  // of each layer
  for (const DispatchRow& r : report.rows) {
    const LayerStage at = stage_of(r.node);
    // A common row stands for ops that have rows of their own.
    if (at.layer.empty() || r.kind == DispatchKind::view || r.kernel.empty()) continue;
    const auto [place, fresh] = calls.try_emplace(std::string(at.layer));
    if (fresh) order.emplace_back(at.layer);
    place->second.push_back(fmt::format("{} {}<{}>", at.stage, r.op, r.kernel));
  }
  std::vector<LayerBody> bodies;
  for (const std::string& layer : order) {
    const std::vector<std::string>& mine = calls.find(layer)->second;
    const auto same = std::find_if(bodies.begin(), bodies.end(), [&](const LayerBody& b) { return b.calls == mine; });
    if (same == bodies.end())
      bodies.push_back({{layer}, mine});
    else
      same->layers.push_back(layer);
  }
  return bodies;
}

std::string layers_text(const std::vector<LayerBody>& bodies) {
  std::string out;
  for (const LayerBody& b : bodies) {
    out += fmt::format("{} ({} alike, {} calls)\n", ranges(b.layers), b.layers.size(), b.calls.size());
    for (const std::string& call : b.calls) out += fmt::format("  {}\n", call);
  }
  return out;
}

}  // namespace rlx
