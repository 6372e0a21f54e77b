#include "compiler/passes/cse.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "ir/rewrite.h"
#include "ir/source.h"

namespace rlx {
namespace {

// Of the op and the operands.
std::uint64_t hash_of(const OpDef& def, std::span<const Value> inputs) {
  std::uint64_t h = def.id;
  for (Value v : inputs) {
    h = (h ^ static_cast<std::uint64_t>(v.node)) * 0x9e3779b97f4a7c15u;
    h = (h ^ (h >> 29) ^ static_cast<std::uint64_t>(v.index)) * 0xbf58476d1ce4e5b9u;
  }
  return h ^ (h >> 32);
}

// Attributes of one op are equal when their texts are: blobs have bytes between the fields.
bool same_attrs(const OpDef& def, const AttrBlob& a, const AttrBlob& b) {
  return std::memcmp(a.data(), b.data(), a.size()) == 0 || def.print(a) == def.print(b);
}

}  // namespace

bool cse(Graph& graph, const PassContext&) {
  std::unordered_multimap<std::uint64_t, std::int32_t> seen;  // nodes of the new graph
  seen.reserve(graph.nodes().size());
  Rewriter rewriter(graph);
  return rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    const bool constant = s.node.is<Constant>();
    if (!constant && (s.node.def->has(Trait::source) || s.node.def->has(Trait::state))) return {};
    const std::uint64_t hash = constant ? static_cast<std::uint64_t>(s.node.as<Constant>()->data.index)
                                        : hash_of(*s.node.def, s.inputs);
    const auto [begin, end] = seen.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
      const Node& made = s.b.graph().node(it->second);
      if (made.def != s.node.def || !std::ranges::equal(s.inputs, made.inputs)) continue;
      if (constant ? !(made.as<Constant>() == s.node.as<Constant>())
                   : !same_attrs(*s.node.def, made.attrs, s.node.attrs))
        continue;
      Rewriter::Answer results;
      for (std::size_t k = 0; k < s.node.results.size(); ++k)
        results.push_back({it->second, static_cast<std::int32_t>(k)});
      return results;
    }
    // The node that a copy appends next.
    seen.emplace(hash, static_cast<std::int32_t>(s.b.graph().nodes().size()));
    return {};
  });
}

}  // namespace rlx
