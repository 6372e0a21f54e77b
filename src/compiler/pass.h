// A pass is a function Graph& -> bool in its own pair of files; this wrapper gives every pass its
// name, an off-switch, its time, a verifier run after it and a dump when it changed something
// (RLX_PRINT=after-each).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/dispatch.h"
#include "compiler/fusion_report.h"
#include "device/backend.h"
#include "ir/graph.h"
#include "ir/options.h"

namespace rlx {

/// What a pass may look at. `report` takes the nodes that a pass brings into their common form, `fusion` what it fused
/// and what it nearly fused.
struct PassContext {
  const CompileOptions& options;
  const Backend& backend;
  DispatchReport* report = nullptr;
  FusionReport* fusion = nullptr;
};

struct Pass {
  std::string_view name;
  bool (*run)(Graph&, const PassContext&);
  bool required;  ///< correctness needs it: --no-fusion and switches leave it on
  bool always_verified = false;  ///< also when it reports no change
};

struct PassRun {
  std::string name;
  bool changed = false;
  double us = 0;
  std::int64_t nodes_before = 0, nodes_after = 0;
};

/// The passes in their order (pipeline.cpp, the page).
std::span<const Pass> pipeline_passes();
/// The message about a name that no pass has, with the nearest one.
std::string unknown_pass(std::string_view name);

/// Runs the named passes, in the order given. Errors (usage): an unknown name, with the nearest
/// known one.
std::vector<PassRun> run_passes(Graph& graph, std::span<const std::string> names,
                                const PassContext& context);

/// Runs one pass with everything that the wrapper adds.
PassRun run_pass(Graph& graph, const Pass& pass, const PassContext& context);

}  // namespace rlx
