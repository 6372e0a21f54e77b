// MIR -> LIR: asks the backend's table for a row per node and writes the flat program.
#pragma once

#include <string>

#include "compiler/dispatch.h"
#include "device/backend.h"
#include "device/program.h"
#include "ir/graph.h"
#include "ir/options.h"

namespace rlx {

/// The row that a node gets and why. `common`: the policy asks for the op's body (when it has one).
struct KernelChoice {
  const Kernel* kernel = nullptr;
  bool common = false;
  std::string reason;
};

/// Whether the config asks for the common form of an op, whatever kernels there are.
bool asks_for_common(const KernelDispatchConfig& config, std::string_view op);

/// Error(unsupported) under ForceNative when no row fits.
KernelChoice choose_kernel(const Graph& graph, const Node& node, const KernelDispatchConfig& config,
                           const Backend& backend);

/// Errors (unsupported): an op that this backend can run in no form.
Program lower(const Graph& graph, const CompileOptions& options, const Backend& backend,
              DispatchReport& report);

}  // namespace rlx
