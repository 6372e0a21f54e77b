#include "ir/print.h"

#include <algorithm>
#include <charconv>

#include "ir/constant_text.h"
#include "ir/source.h"

namespace rlx {
namespace {

// Writes one graph; sub-graphs by printers of their own.
class Printer {
 public:
  Printer(const Graph& graph, bool with_data)
      : graph_(graph), with_data_(with_data), places_(graph.subgraph_count(), -1) {
    std::int32_t next = 0;
    for (const Node& n : graph.nodes()) {
      first_.push_back(next);
      next += static_cast<std::int32_t>(n.results.size());
      for (GraphRef ref : subgraphs_of(n)) {
        std::int32_t& place = places_[static_cast<std::size_t>(ref.index)];
        if (place >= 0) continue;
        place = static_cast<std::int32_t>(used_.size());
        used_.push_back(ref);
      }
    }
  }

  void body(std::string& text, const std::string& indent) const {
    for (std::size_t k = 0; k < used_.size(); ++k) {
      const Graph& sub = graph_.subgraph(used_[k]);
      text += fmt::format("{}  graph @{} {}\n", indent, k, rlx::quoted(sub.name));
      Printer(sub, with_data_).body(text, indent + "  ");
    }
    text.reserve(text.size() + graph_.nodes().size() * 96);
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      text += indent;
      text += "  ";
      append_line(text, static_cast<std::int32_t>(i));
      text += '\n';
    }
    text += indent + "return";
    for (std::size_t k = 0; k < graph_.outputs().size(); ++k) {
      const Output& o = graph_.outputs()[k];
      text += fmt::format("{} {} {}", k > 0 ? "," : "", rlx::quoted(o.name), number(o.value));
    }
    text += "\n";
  }

  std::string line(std::int32_t i) const {
    std::string text;
    append_line(text, i);
    return text;
  }

 private:
  void append_line(std::string& text, std::int32_t i) const {
    const Node& n = graph_.node(i);
    for (std::size_t k = 0; k < n.results.size(); ++k) {
      if (k > 0) text += ", ";
      append_number(text, {i, static_cast<std::int32_t>(k)});
    }
    text += " = ";
    text += n.def->name;
    if (const ConstantData* data = graph_.constant_of({i, 0})) {
      text += " " + constant_text(*data, with_data_);
    } else if (n.def->has(Trait::source)) {
      text += " " + rlx::quoted(n.name);
    } else {
      text += "(";
      for (std::size_t k = 0; k < n.inputs.size(); ++k) {
        if (k > 0) text += ", ";
        append_number(text, n.inputs[k]);
      }
      text += ")";
    }
    text += n.def->print(attrs(n));
    text += " :";
    for (std::size_t k = 0; k < n.results.size(); ++k) {
      text += k > 0 ? ", " : " ";
      append_shape(text, n.results[k]);
    }
    if (!n.origin.empty()) text += " @" + rlx::quoted(n.origin);
  }

  // Most shapes of a graph are those of other nodes.
  void append_shape(std::string& text, const Shape& shape) const {
    const auto known = std::find_if(shapes_.begin(), shapes_.end(), [&](const auto& s) { return s.first == shape; });
    if (known != shapes_.end()) {
      text += known->second;
      return;
    }
    const std::string made = shape.text();
    text += made;
    if (shapes_.size() < kShapes) shapes_.emplace_back(shape, made);
  }

  void append_number(std::string& text, Value v) const {
    std::array<char, 16> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(),
                                   first_[static_cast<std::size_t>(v.node)] + v.index).ptr;
    text += '%';
    text.append(digits.data(), end);
  }
  std::string number(Value v) const {
    std::string text;
    append_number(text, v);
    return text;
  }
  // With the numbers that sub-graphs have in the text.
  AttrBlob attrs(const Node& n) const {
    AttrBlob blob = n.attrs;
    if (n.def->has_graphs)
      n.def->visit_graphs(blob, [&](GraphRef& ref) { ref.index = places_[static_cast<std::size_t>(ref.index)]; });
    return blob;
  }

  static constexpr std::size_t kShapes = 24;  // as many as are found faster than made

  const Graph& graph_;
  bool with_data_;
  mutable std::vector<std::pair<Shape, std::string>> shapes_;
  std::vector<std::int32_t> first_;   // the number of the first result of each node
  std::vector<std::int32_t> places_;  // of each sub-graph in the text
  std::vector<GraphRef> used_;        // in the order of the text
};

std::string graph_text(const Graph& graph, bool with_data) {
  std::string text = fmt::format("graph {} stage={}\n", rlx::quoted(graph.name), name(graph.stage));
  Printer(graph, with_data).body(text, "");
  return text;
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string out = "\"";
  out.reserve(text.size() + 2);
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += fmt::format("\\{}", c);
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (static_cast<unsigned char>(c) < 32 || c == 127)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + "\"";
}

std::string print_node(const Graph& graph, std::int32_t node) { return Printer(graph, true).line(node); }

std::string print(const Graph& graph) { return graph_text(graph, true); }

Digest digest(const Graph& graph) { return digest(graph_text(graph, false)); }

}  // namespace rlx
