// A compiled model as data to look at: its stages as graphs, and per variant what the plan and the costs are. What
// `rlx inspect --format html` and svg draw; plain data, so that drawing knows no compiler.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compiler/cost.h"
#include "compiler/pipeline.h"

namespace rlx {

/// A node of HIR or MIR, or a call or source of LIR.
struct InspectedNode {
  std::string op, name, attributes, origin;
  std::string kernel;         ///< of a call: the row, or "reference"; empty in HIR and MIR
  std::vector<Value> inputs;  ///< results of nodes that stand before it
  std::vector<Shape> results;
  Phase phase = Phase::steady;
  bool source = false;     ///< an input, a state, a weight, or something made of weights when the model is loaded
  std::int32_t call = -1;  ///< LIR: place in the schedule
};

struct InspectedGraph {
  std::string stage;  ///< "hir", "mir", "lir"
  std::vector<InspectedNode> nodes;
  std::vector<Output> outputs;
};

/// A buffer of the arena: alive from call `first` to call `last`; the number of calls stands for the end of the step.
struct InspectedBuffer {
  std::int64_t offset = 0, bytes = 0;
  std::int32_t first = 0, last = 0;
  std::int32_t node = -1;  ///< of the LIR graph: who writes it first
};

/// The model at one binding.
struct InspectedVariant {
  DimBinding sizes;
  std::vector<std::vector<OpCost>> costs;  ///< per graph and node
  std::vector<InspectedBuffer> buffers;
  std::vector<std::int64_t> live;     ///< bytes alive at each call
  std::vector<bool> barrier_after;    ///< per call
  std::int64_t arena_bytes = 0, arena_bound = 0;  ///< planned; the largest of `live`
  std::int64_t scratch_per_worker = 0, shared_bytes = 0;
};

struct Inspection {
  std::string name;
  std::vector<InspectedGraph> graphs;  ///< hir (absent when MIR was compiled), mir, lir
  std::vector<InspectedVariant> variants;
  std::vector<std::string> calls;  ///< kernels in the order of the schedule
  DispatchReport dispatch;
  FusionReport fusion;
  std::vector<PassRun> passes;
  int threads = 1;
  std::int64_t context = 0;  ///< tokens of the cache that attention is counted for
};

/// `given` is what `compiled` was made of. Symbols that a binding leaves out are 1. Errors as specialize.
Inspection inspect(const Graph& given, const CompileResult& compiled, std::span<const DimBinding> sizes,
                   const SpecializeOptions& options);

/// HIR or MIR as it is, and a program with its data flow: sources that a call reads, then calls.
InspectedGraph inspected(const Graph& graph);
InspectedGraph inspected(const Program& program);

/// The binding with 1 for every symbol of the graph that it leaves out.
DimBinding complete(const Graph& graph, DimBinding sizes);

/// Path of a node's groups, outermost first: "layers.3.attention" is in "layers.3" and "layers.3.attention". A part
/// that is a number belongs to the part before it.
std::vector<std::string> group_path(std::string_view origin);

}  // namespace rlx
