// Where in a streaming forward pass a node belongs (compiler.md, section 5).
#pragma once

#include <vector>

#include "device/program.h"
#include "ir/graph.h"

namespace rlx {

/// The phase of each node. Prologue: sources, and what depends on no per-step input or state.
/// Epilogue: sampling ops, what depends on select_rows, and what stands after the last compute op.
/// The rest, and all of a graph without compute, is steady.
std::vector<Phase> derive_phases(const Graph& graph);

}  // namespace rlx
