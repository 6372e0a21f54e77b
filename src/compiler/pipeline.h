// The compiler's page: HIR -> passes -> MIR -> LIR template, and the specialisation of a template
// for bound sizes.
#pragma once

#include <memory>
#include <vector>

#include "compiler/dispatch.h"
#include "compiler/pass.h"
#include "device/program.h"

namespace rlx {

/// Sizes that a plan is made for, and for whom.
struct SpecializeOptions {
  int threads = 1;
  std::int64_t max_context = 0;
};

/// A program with symbolic sizes (a template), and its plan once it is specialised.
struct Lir {
  std::shared_ptr<const Program> program;
  std::shared_ptr<const Plan> plan;  ///< nullptr in a template
};

/// Everything that compiling a graph gives: the symbolic program and the reports of how it came
/// about.
struct CompileResult {
  std::shared_ptr<const Graph> mir;  ///< after the passes
  Lir lir;
  DispatchReport dispatch;
  FusionReport fusion;
  std::vector<PassRun> passes;

  /// The same program placed for upper sizes: the plan alone is new. Errors as rlx::specialize.
  CompileResult specialize(const DimBinding& upper, const SpecializeOptions& options = {}) const;
};

/// Runs the pipeline once on a symbolic graph (HIR, or MIR as it is). Errors: shape; unsupported
/// (ForceNative and an op without a kernel; an op that this backend cannot run at all).
CompileResult compile(Graph graph, const CompileOptions& options, const Backend& backend);

/// HIR or MIR after the passes only; what `rlx inspect --stage mir` prints. The reports may be left out.
Graph run_pipeline(Graph graph, const CompileOptions& options, const Backend& backend, std::vector<PassRun>* runs,
                   DispatchReport* dispatch, FusionReport* fusion = nullptr);

/// Places a template for upper sizes: buffers, scratch, barriers. Copies no weight. Errors (shape):
/// a symbol that is not bound, a check that fails.
Plan specialize(const Program& program, const DimBinding& upper, const SpecializeOptions& options);

}  // namespace rlx
