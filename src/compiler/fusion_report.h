// What the passes fused, and what they left alone for a reason (compiler.md, section 6): written by the passes
// themselves, so it cannot disagree with the graph.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/shared_list.h"

namespace rlx {

/// A fused op that a pass made.
struct FusedNode {
  std::string pass, op, origin;
};

/// A place that has the form of a pattern but for one condition.
struct NearMiss {
  std::string pass, origin;
  std::string reason;  ///< which condition failed, with what was found
};

struct FusionReport {
  std::int64_t nodes_before = 0, nodes_after = 0;  ///< of the graph: HIR as given, MIR after the passes
  SharedList<FusedNode> fused;
  SharedList<NearMiss> near_misses;

  /// How many of each fused op.
  std::map<std::string, std::int64_t> counts() const;
  std::string text() const;  ///< counts, then the near misses grouped by pass and reason
  std::string json() const;  ///< {"nodes_before", "nodes_after", "fused": {op: n}, "near_misses": [...]}
};

}  // namespace rlx
