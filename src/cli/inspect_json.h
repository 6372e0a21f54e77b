// Stages of the compiler as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "device/program.h"
#include "ir/graph.h"
#include "models/load.h"

namespace rlx::cli {

/// {"name", "stage", "nodes": [{"id", "op", "name", "attributes", "inputs": [[node, result]],
/// "results": [type], "origin"}], "outputs"}.
nlohmann::ordered_json graph_json(const Graph& graph);
/// {"name", "sizes", "arena_bytes", "scratch_bytes", "calls": [{"op", "kernel", "phase", "in",
/// "out", "barrier", "origin"}], "operands"}.
nlohmann::ordered_json program_json(const Program& program, const Plan& plan);
/// {"q4_1": {"tensors": 210, "bytes": 65000000}, ...} of the stored weights that the graph reads.
nlohmann::ordered_json weight_types(const LoadedModel& model);

}  // namespace rlx::cli
