#include "compiler/passes/cse.h"

#include <map>

#include "ir/rewrite.h"
#include "ir/source.h"

namespace rlx {
namespace {

// Op, attributes as text (fields, no padding bytes) and operands: equal keys mean equal values.
struct Key {
  std::uint64_t op;
  std::string attrs;
  std::vector<std::pair<std::int32_t, std::int32_t>> inputs;
  auto operator<=>(const Key&) const = default;
};

}  // namespace

bool cse(Graph& graph, const PassContext&) {
  std::map<Key, Rewriter::Answer> seen;
  Rewriter rewriter(graph);
  return rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    const auto constant = s.node.as<Constant>();
    if (!constant && (s.node.def->has(Trait::source) || s.node.def->has(Trait::state))) return {};
    Key key{s.node.def->id, constant ? fmt::format("{}", constant->data.index) : s.node.def->print(s.node.attrs), {}};
    for (Value v : s.inputs) key.inputs.emplace_back(v.node, v.index);
    if (const auto it = seen.find(key); it != seen.end()) return it->second;
    // The node that a copy would append next; known before it is made since results are numbered by
    // node.
    Rewriter::Answer results;
    const auto next = static_cast<std::int32_t>(s.b.graph().nodes().size());
    for (std::size_t k = 0; k < s.node.results.size(); ++k)
      results.push_back({next, static_cast<std::int32_t>(k)});
    seen.emplace(std::move(key), std::move(results));
    return {};
  });
}

}  // namespace rlx
