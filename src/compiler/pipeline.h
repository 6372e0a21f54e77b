// The compiler's page: HIR -> passes -> MIR -> LIR template, and the specialisation of a template
// for bound sizes.
#pragma once

#include <memory>
#include <vector>

#include "compiler/dispatch.h"
#include "compiler/pass.h"
#include "device/program.h"

namespace rlx {

/// Everything that compiling a graph gives: the symbolic program and the reports of how it came
/// about.
struct CompileResult {
  std::shared_ptr<const Graph> mir;        ///< after the passes
  std::shared_ptr<const Program> program;  ///< LIR template
  DispatchReport dispatch;
  std::vector<PassRun> passes;
};

/// Runs the pipeline once on a symbolic graph (HIR, or MIR as it is). Errors: shape; unsupported
/// (ForceNative and an op without a kernel; an op that this backend cannot run at all).
CompileResult compile(Graph graph, const CompileOptions& options, const Backend& backend);

/// HIR or MIR after the passes only; what `rlx inspect --stage mir` prints.
Graph run_pipeline(Graph graph, const CompileOptions& options, const Backend& backend,
                   std::vector<PassRun>* runs, DispatchReport* report);

/// Sizes that a plan is made for, and for whom.
struct SpecializeOptions {
  int threads = 1;
  std::int64_t max_context = 0;
};

/// Places a template for upper sizes: buffers, scratch, barriers. Copies no weight. Errors (shape):
/// a symbol that is not bound, a check that fails.
Plan specialize(const Program& program, const DimBinding& upper, const SpecializeOptions& options);

}  // namespace rlx
