#include "cli/inspect_svg.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/inspect_page.h"
#include "cli/layered_layout.h"

namespace rlx::cli {
namespace {

constexpr double kChar = 7.2, kLine = 16, kMargin = 12, kTitle = 30;
constexpr std::size_t kWhole = 60;  // boxes that one page of a paper can show

bool in_group(const InspectedNode& n, std::string_view group) {
  const std::vector<std::string> path = group_path(n.origin);
  return group.empty() || std::find(path.begin(), path.end(), group) != path.end();
}

std::string choose_group(const InspectedGraph& graph, std::string_view wanted) {
  std::vector<std::string> names;
  std::string first;
  std::size_t drawn = 0;
  for (const InspectedNode& n : graph.nodes) {
    if (n.source) continue;
    ++drawn;
    for (const std::string& p : group_path(n.origin)) {
      if (std::find(names.begin(), names.end(), p) == names.end()) names.push_back(p);
      if (first.empty() && p.back() >= '0' && p.back() <= '9') first = p;
    }
  }
  if (wanted.empty()) return drawn > kWhole ? first : std::string();
  if (std::find(names.begin(), names.end(), wanted) == names.end())
    fail(ErrorCode::usage, "--group: this graph has no group \"{}\"{}", wanted, did_you_mean(wanted, names));
  return std::string(wanted);
}

struct SvgBox {
  std::vector<std::string> lines;
  std::string fill;
  bool port = false;
};

class Picture {
 public:
  Picture(const InspectedGraph& graph, const InspectedVariant& variant, std::string group)
      : graph_(graph), variant_(variant), group_(std::move(group)), box_of_(graph.nodes.size(), -1) {}

  std::string draw() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) add_node(static_cast<std::int32_t>(i));
    add_outputs();
    for (const SvgBox& b : boxes_) {
      std::size_t most = 0;
      for (const std::string& l : b.lines) most = std::max(most, l.size());
      LayoutBox place;
      place.width = static_cast<double>(most) * kChar + 16;
      place.height = static_cast<double>(b.lines.size()) * kLine + 8;
      places_.push_back(place);
    }
    const LayoutSize size = layered_layout(places_, edges_);
    return text(size);
  }

 private:
  bool drawn(const InspectedNode& n) const { return !n.source && in_group(n, group_); }
  std::string shape(Value v) const {
    return graph_.nodes[static_cast<std::size_t>(v.node)]
        .results[static_cast<std::size_t>(v.index)]
        .bind(variant_.sizes)
        .text();
  }

  // Of a packed weight: that of the weight.
  std::string name_of(std::int32_t source) const {
    const InspectedNode* n = &graph_.nodes[static_cast<std::size_t>(source)];
    while (n->name.empty() && !n->inputs.empty()) n = &graph_.nodes[static_cast<std::size_t>(n->inputs[0].node)];
    return n->name.empty() ? n->op : n->name;
  }

  std::int32_t add_box(SvgBox box) {
    boxes_.push_back(std::move(box));
    return static_cast<std::int32_t>(boxes_.size()) - 1;
  }

  void connect(std::int32_t from, std::int32_t to) {
    if (connected_.insert({from, to}).second) edges_.push_back({from, to, {}});
  }

  // What comes from outside the group is a port, one per value.
  std::int32_t port_of(Value v) {
    std::int32_t& box = box_of_[static_cast<std::size_t>(v.node)];
    if (box < 0) {
      const InspectedNode& n = graph_.nodes[static_cast<std::size_t>(v.node)];
      box = add_box({{n.op + (n.origin.empty() ? "" : " of " + n.origin), shape(v)}, "#ffffff", true});
    }
    return box;
  }

  void add_node(std::int32_t id) {
    const InspectedNode& n = graph_.nodes[static_cast<std::size_t>(id)];
    if (!drawn(n)) return;
    constexpr const char* fills[] = {"#e5dbff", "#dbeafe", "#d3f9d8"};
    SvgBox box{{n.op}, fills[order(n.phase)], false};
    if (!n.kernel.empty()) box.lines.push_back(n.kernel);
    if (!n.attributes.empty()) box.lines.push_back(n.attributes);
    std::vector<std::int32_t> from;
    for (const Value v : n.inputs) {
      const InspectedNode& source = graph_.nodes[static_cast<std::size_t>(v.node)];
      if (!source.source)
        from.push_back(port_of(v));
      else
        box.lines.push_back(name_of(v.node) + ": " + shape(v));
    }
    for (std::size_t k = 0; k < n.results.size(); ++k)
      box.lines.push_back("= " + shape({id, static_cast<std::int32_t>(k)}));
    const std::int32_t mine = add_box(std::move(box));
    box_of_[static_cast<std::size_t>(id)] = mine;
    for (const std::int32_t f : from) connect(f, mine);
  }

  // Results of the graph, and values that go on to other groups.
  void add_outputs() {
    for (const rlx::Output& o : graph_.outputs)
      if (drawn(graph_.nodes[static_cast<std::size_t>(o.value.node)]))
        connect(box_of_[static_cast<std::size_t>(o.value.node)], add_box({{"output " + o.name}, "#ffffff", true}));
    if (group_.empty()) return;
    std::set<std::pair<std::int32_t, std::string>> seen;
    for (const InspectedNode& reader : graph_.nodes) {
      if (reader.source || in_group(reader, group_)) continue;
      const std::vector<std::string> path = group_path(reader.origin);
      const std::string where = path.empty() ? reader.op : path.front();
      for (const Value v : reader.inputs)
        if (drawn(graph_.nodes[static_cast<std::size_t>(v.node)]) && seen.insert({v.node, where}).second)
          connect(box_of_[static_cast<std::size_t>(v.node)], add_box({{"to " + where}, "#ffffff", true}));
    }
  }

  std::string text(LayoutSize size) const {
    const std::string title = fmt::format("{} {}: {}", graph_.stage, group_.empty() ? "graph" : group_,
                                          variant_.sizes.text());
    const double width = std::max(size.width, static_cast<double>(title.size()) * kChar) + 2 * kMargin,
                 height = size.height + kTitle + 2 * kMargin;
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"monospace\" font-size=\"12\">\n<title>{2}</title>\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        "<text x=\"{3}\" y=\"{4}\" font-weight=\"bold\">{2}</text>\n",
        width, height, markup_text(title), kMargin, kMargin + 12);
    svg += fmt::format("<g transform=\"translate({} {})\">\n", kMargin, kMargin + kTitle);
    for (const LayoutEdge& e : edges_) svg += line(e);
    for (std::size_t i = 0; i < boxes_.size(); ++i) svg += box_text(boxes_[i], places_[i]);
    return svg + "</g>\n</svg>\n";
  }

  static std::string line(const LayoutEdge& e) {
    std::string d = fmt::format("M{:.1f} {:.1f}", e.points[0].first, e.points[0].second);
    for (std::size_t i = 1; i < e.points.size(); ++i) {
      const auto& [x0, y0] = e.points[i - 1];
      const auto& [x, y] = e.points[i];
      const double middle = (y0 + y) / 2;
      d += fmt::format("C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", x0, middle, x, middle, x, y);
    }
    return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"#7c8794\"/>\n", d);
  }

  static std::string box_text(const SvgBox& b, const LayoutBox& at) {
    std::string svg = fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"4\" fill=\"{}\" "
        "stroke=\"#5d6775\"{}/>\n",
        at.x, at.y, at.width, at.height, b.fill, b.port ? " stroke-dasharray=\"4 3\"" : "");
    for (std::size_t i = 0; i < b.lines.size(); ++i)
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", at.x + 8,
                         at.y + 16 + static_cast<double>(i) * kLine, i == 0 && !b.port ? " font-weight=\"bold\"" : "",
                         markup_text(b.lines[i]));
    return svg;
  }

  const InspectedGraph& graph_;
  const InspectedVariant& variant_;
  const std::string group_;
  std::vector<std::int32_t> box_of_;
  std::vector<SvgBox> boxes_;
  std::vector<LayoutBox> places_;
  std::vector<LayoutEdge> edges_;
  std::set<std::pair<std::int32_t, std::int32_t>> connected_;
};

}  // namespace

std::string graph_svg(const InspectedGraph& graph, const InspectedVariant& variant, std::string_view group) {
  return Picture(graph, variant, choose_group(graph, group)).draw();
}

}  // namespace rlx::cli
