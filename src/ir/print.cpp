#include "ir/print.h"

namespace rlx {
namespace {

// The number of the first result of each node.
std::vector<std::int32_t> numbers(const Graph& graph) {
  std::vector<std::int32_t> first;
  std::int32_t next = 0;
  for (const Node& n : graph.nodes()) {
    first.push_back(next);
    next += static_cast<std::int32_t>(n.results.size());
  }
  return first;
}

std::string line(const Graph& graph, const std::vector<std::int32_t>& first, std::int32_t i) {
  const Node& n = graph.node(i);
  const auto number = [&](Value v) {
    return fmt::format("%{}", first[static_cast<std::size_t>(v.node)] + v.index);
  };
  std::string text;
  for (std::size_t k = 0; k < n.results.size(); ++k)
    text += (k > 0 ? ", " : "") + number({i, static_cast<std::int32_t>(k)});
  text += fmt::format(" = {}", n.def->name);
  if (n.def->has(Trait::source)) {
    text += " " + rlx::quoted(n.name);
  } else {
    text += "(";
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      text += (k > 0 ? ", " : "") + number(n.inputs[k]);
    text += ")";
  }
  text += n.def->print(n.attrs) + " :";
  for (std::size_t k = 0; k < n.results.size(); ++k)
    text += (k > 0 ? ", " : " ") + n.results[k].text();
  if (!n.origin.empty()) text += " @" + rlx::quoted(n.origin);
  return text;
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string out = "\"";
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

std::string print_node(const Graph& graph, std::int32_t node) {
  return line(graph, numbers(graph), node);
}

std::string print(const Graph& graph) {
  const std::vector<std::int32_t> first = numbers(graph);
  std::string text = fmt::format("graph {} stage={}\n", rlx::quoted(graph.name), name(graph.stage));
  for (std::size_t i = 0; i < graph.nodes().size(); ++i)
    text += "  " + line(graph, first, static_cast<std::int32_t>(i)) + "\n";
  text += "return";
  for (std::size_t k = 0; k < graph.outputs().size(); ++k) {
    const Output& o = graph.outputs()[k];
    text += fmt::format("{} {} %{}", k > 0 ? "," : "", rlx::quoted(o.name),
                        first[static_cast<std::size_t>(o.value.node)] + o.value.index);
  }
  return text + "\n";
}

}  // namespace rlx
