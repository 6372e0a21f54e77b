#include "cli/inspect_page.h"

#include <map>
#include <nlohmann/json.hpp>

#include "cli/output.h"
#include "cli/page/text.h"

namespace rlx::cli {
namespace {

using nlohmann::ordered_json;

// Whole numbers as such: half the bytes, and none of them is large enough to lose a digit that matters.
ordered_json number(double n) {
  if (n < 9e15) return static_cast<std::int64_t>(n);
  return n;
}

ordered_json page_node(const InspectedNode& n) {
  ordered_json in = ordered_json::array(), out = ordered_json::array();
  for (const Value v : n.inputs) in.push_back({v.node, v.index});
  for (const Shape& s : n.results) out.push_back(s.text());
  ordered_json json = {{"op", n.op},       {"name", n.name}, {"attrs", n.attributes},
                       {"origin", n.origin}, {"in", in},       {"out", out},
                       {"phase", order(n.phase)}};
  if (n.source) json["source"] = true;
  if (n.call >= 0) json["call"] = n.call;
  if (!n.kernel.empty()) json["kernel"] = n.kernel;
  return json;
}

ordered_json page_graph(const InspectedGraph& g) {
  ordered_json nodes = ordered_json::array(), outputs = ordered_json::array();
  for (const InspectedNode& n : g.nodes) nodes.push_back(page_node(n));
  for (const rlx::Output& o : g.outputs)
    outputs.push_back({{"name", o.name}, {"node", o.value.node}, {"index", o.value.index}});
  return {{"stage", g.stage}, {"nodes", std::move(nodes)}, {"outputs", std::move(outputs)}};
}

// Shapes of the nodes whose sizes the binding decides, by node.
ordered_json bound_shapes(const InspectedGraph& g, const DimBinding& sizes) {
  ordered_json::object_t shapes;
  for (std::size_t i = 0; i < g.nodes.size(); ++i) {
    ordered_json texts = ordered_json::array();
    bool differs = false;
    for (const Shape& s : g.nodes[i].results) {
      const Shape bound = s.bind(sizes);
      differs = differs || !(bound == s);
      texts.push_back(bound.text());
    }
    // Past the look-up of operator[], which is a search from the front.
    if (differs) shapes.ordered_json::object_t::Container::emplace_back(std::to_string(i), std::move(texts));
  }
  return shapes;
}

ordered_json page_variant(const Inspection& all, const InspectedVariant& v) {
  ordered_json sizes = ordered_json::object(), costs = ordered_json::array(), shapes = ordered_json::array(),
               buffers = ordered_json::array(), barriers = ordered_json::array();
  for (const auto& [symbol, size] : v.sizes.sizes()) sizes[std::string(symbol.name())] = size;
  for (const std::vector<OpCost>& of : v.costs) {
    ordered_json list = ordered_json::array();
    for (const OpCost& c : of) list.push_back({number(c.bytes), number(c.weight_bytes), number(c.ops)});
    costs.push_back(std::move(list));
  }
  for (const InspectedGraph& g : all.graphs) shapes.push_back(bound_shapes(g, v.sizes));
  for (const InspectedBuffer& b : v.buffers) buffers.push_back({b.offset, b.bytes, b.first, b.last, b.node});
  for (std::size_t c = 0; c + 1 < v.barrier_after.size(); ++c)
    if (v.barrier_after[c]) barriers.push_back(c);
  return {{"sizes", sizes},           {"costs", costs},
          {"shapes", shapes},         {"buffers", buffers},
          {"live", v.live},           {"barriers", barriers},
          {"arena", v.arena_bytes},   {"bound", v.arena_bound},
          {"scratch", v.scratch_per_worker}, {"shared", v.shared_bytes}};
}

ordered_json paths_json(const Inspection& all) {
  std::map<std::string, std::vector<std::string>> paths;
  for (const InspectedGraph& g : all.graphs)
    for (const InspectedNode& n : g.nodes)
      if (!n.origin.empty() && !paths.contains(n.origin)) paths.emplace(n.origin, group_path(n.origin));
  return paths;
}

}  // namespace

ordered_json inspection_json(const Inspection& all, std::string_view stage) {
  ordered_json graphs = ordered_json::array(), variants = ordered_json::array(), passes = ordered_json::array();
  for (const InspectedGraph& g : all.graphs) graphs.push_back(page_graph(g));
  for (const InspectedVariant& v : all.variants) variants.push_back(page_variant(all, v));
  for (const PassRun& p : all.passes)
    passes.push_back({{"name", p.name},
                      {"changed", p.changed},
                      {"us", p.us},
                      {"before", p.nodes_before},
                      {"after", p.nodes_after}});
  return {{"name", all.name},
          {"stage", stage},
          {"threads", all.threads},
          {"context", all.context},
          {"graphs", std::move(graphs)},
          {"paths", paths_json(all)},
          {"variants", std::move(variants)},
          {"calls", all.calls},
          {"dispatch", ordered_json::parse(all.dispatch.json())},
          {"fusion", ordered_json::parse(all.fusion.json())},
          {"passes", std::move(passes)}};
}

std::string markup_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else
      out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  // Invalid UTF-8 is replaced as in JSON.
  std::string valid = json_text(ordered_json(out));
  return ordered_json::parse(valid).get<std::string>();
}

std::string page_html(const Inspection& all, std::string_view stage) {
  std::string data;
  for (const char c : json_text(inspection_json(all, stage))) {
    // "</script>" and "<!--" inside a string would end the element: no "<" is left.
    if (c == '<')
      data += "\\u003c";
    else
      data += c;
  }
  std::string page = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  // No request leaves the page, whatever is in it.
  page +=
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
      "style-src 'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width\">\n";
  page += "<title>" + markup_text(all.name) + "</title>\n<style>\n" + kPageCss + "</style>\n</head>\n<body>\n";
  page += "<noscript>This page is drawn by the script in it.</noscript>\n";
  page += "<script type=\"application/json\" id=\"data\">" + data + "</script>\n<script>\n";
  for (const char* script : {kGraphJs, kPageJs, kReportJs}) page += script;
  return page + "</script>\n</body>\n</html>\n";
}

}  // namespace rlx::cli
