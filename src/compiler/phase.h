// Where in a streaming forward pass a node belongs (compiler.md, section 5).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "device/program.h"
#include "ir/graph.h"

namespace rlx {

/// The phase of each node of a graph, by the node's number.
class PhaseSchedule {
 public:
  /// A node and its phase.
  struct Entry {
    std::int32_t node = 0;
    Phase phase = Phase::steady;
    bool operator==(const Entry&) const = default;
  };

  PhaseSchedule() = default;
  /// All nodes 0 .. nodes - 1 are steady.
  explicit PhaseSchedule(std::size_t nodes);

  std::size_t size() const { return entries_.size(); }
  /// Error(invalid_argument): no such node.
  Phase get(std::int32_t node) const;
  void set(std::int32_t node, Phase phase);
  /// Entries in the order of nodes.
  std::span<const Entry>::iterator begin() const { return std::span<const Entry>(entries_).begin(); }
  std::span<const Entry>::iterator end() const { return std::span<const Entry>(entries_).end(); }

  /// The nodes of a phase, rising.
  std::vector<std::int32_t> nodes(Phase phase) const;
  /// The nodes of a phase in the order that `schedule` lists them; Error(invalid_argument): a number
  /// that is no node.
  std::vector<std::int32_t> nodes(Phase phase, std::span<const std::int32_t> schedule) const;

  bool operator==(const PhaseSchedule&) const = default;

 private:
  std::vector<Entry> entries_;
};

/// The phase of each node. Prologue: sources, and what depends on no per-step input or state.
/// Epilogue: sampling ops, and a top_k whose results reach only sampling ops and outputs, in both cases
/// with what depends on them; what depends on select_rows; and in graphs without select_rows what
/// stands after the last compute op; nothing does in a graph without compute. The rest is steady.
PhaseSchedule derive_phases(const Graph& graph);

}  // namespace rlx
