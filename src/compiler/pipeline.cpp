#include "compiler/pipeline.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "compiler/lower.h"
#include "compiler/passes/common_form.h"
#include "compiler/passes/cse.h"
#include "compiler/passes/dce.h"
#include "compiler/passes/expand_blocks.h"
#include "compiler/passes/fold_constants.h"
#include "compiler/passes/form_regions.h"
#include "compiler/passes/fuse_gated_linear.h"
#include "compiler/passes/fuse_linear_bias.h"
#include "compiler/passes/fuse_linear_residual.h"
#include "compiler/passes/fuse_norm_quantize.h"
#include "compiler/passes/fuse_product_input.h"
#include "compiler/passes/fuse_rope_append.h"
#include "compiler/passes/fuse_shared_input.h"
#include "compiler/passes/matmul_to_linear.h"
#include "compiler/passes/pack_weights.h"
#include "compiler/passes/precision.h"
#include "compiler/passes/propagate_layout.h"
#include "compiler/passes/select_rows_up.h"

namespace rlx {
namespace {

constexpr bool kRequired = true, kFusion = false;

constexpr Pass kPasses[] = {
    // Models are written in blocks; everything below works on primitive ops.
    // The first that all graphs meet, so that one is verified that no pass changes.
    {"expand_blocks", expand_blocks, kRequired, true},
    // Bodies compute on constants, too. A folded node is one that no fusion has to know.
    {"fold_constants", fold_constants, kFusion},
    // Readers that nothing needs would keep a fusion from seeing that a value has one reader.
    {"dce", dce, kFusion},
    // Before the patterns: a transpose, a reshape or a cast between two ops hides them from all below.
    {"propagate_layout", propagate_layout, kFusion},
    // Before any fusion: rows that nobody wants then cost nothing in the last layer's row-wise ops
    // either. Fused forms would hide them.
    {"select_rows_up", select_rows_up, kFusion},
    // Joins the copies that moving select_rows made, so that a fusion sees one producer with one
    // reader.
    {"cse", cse, kFusion},
    // Before the fusions of products, which all match linear.
    {"matmul_to_linear", matmul_to_linear, kFusion},
    // Bias before gate and residual: act(x w^T + bias) is the inner part of both.
    {"fuse_linear_bias", fuse_linear_bias, kFusion},
    {"fuse_gated_linear", fuse_gated_linear, kFusion},
    {"fuse_linear_residual", fuse_linear_residual, kFusion},
    {"fuse_rope_append", fuse_rope_append, kFusion},
    // After the products have their final form: one activation format per product.
    {"precision", precision, kRequired},
    // Needs the quantisations that precision put in.
    {"fuse_norm_quantize", fuse_norm_quantize, kFusion},
    // After precision, which shares one converted value between the products that take the same format: those can be
    // one call.
    {"fuse_shared_input", fuse_shared_input, kFusion},
    // Last of the products' fusions: Q, K and V read one norm, which has one reader only once they are one call.
    {"fuse_product_input", fuse_product_input, kFusion},
    // What the products left: after their fusions, which are worth more than a pass over memory, and before layouts.
    {"form_regions", form_regions, kFusion},
    // Layout last: it depends on the dtypes that precision chose.
    {"pack_weights", pack_weights, kRequired},
    // What has no kernel here, or is forced, becomes its body; last, so that a pass cannot make
    // another such op.
    {"common_form", common_form, kRequired},
};

// RLX_DISPATCH_REPORT=1: every compile says on stderr which kernels it chose.
bool asks_for_report() {
  const char* value = std::getenv("RLX_DISPATCH_REPORT");
  return value != nullptr && std::string_view(value) == "1";
}

Pass builtin_form(const CustomPass& pass) {
  if (pass.run == nullptr) fail(ErrorCode::invalid_argument, "custom pass \"{}\": has no function", pass.name);
  return {pass.name, pass.run, kFusion, true};
}

// Every custom pass stands behind a pass that exists.
void check_custom_passes(const CompileOptions& options) {
  for (const CustomPass& p : options.custom_passes) {
    const bool known = p.after.empty() || std::any_of(std::begin(kPasses), std::end(kPasses),
                                                      [&](const Pass& pass) { return pass.name == p.after; });
    if (!known) fail(ErrorCode::invalid_argument, "custom pass \"{}\": {}", p.name, unknown_pass(p.after));
  }
}

bool enabled(const Pass& pass, const CompileOptions& options) {
  if (pass.required) return true;
  const auto& off = options.disabled_passes;
  return options.fusion && std::find(off.begin(), off.end(), pass.name) == off.end();
}

}  // namespace

std::span<const Pass> pipeline_passes() { return kPasses; }

Graph run_pipeline(Graph graph, const CompileOptions& options, const Backend& backend,
                   std::vector<PassRun>* runs, DispatchReport* dispatch, FusionReport* fusion) {
  const PassContext context{options, backend, dispatch, fusion};
  if (fusion != nullptr) fusion->nodes_before = static_cast<std::int64_t>(graph.nodes().size());
  const auto run = [&](const Pass& pass) {
    PassRun done = run_pass(graph, pass, context);
    if (runs != nullptr) runs->push_back(std::move(done));
  };
  const auto run_custom = [&](std::string_view after) {
    for (const CustomPass& p : options.custom_passes)
      if (p.after == after) run(builtin_form(p));
  };
  check_custom_passes(options);
  run_custom("");
  for (const Pass& pass : kPasses) {
    if (enabled(pass, options)) run(pass);
    run_custom(pass.name);
  }
  if (fusion != nullptr) fusion->nodes_after = static_cast<std::int64_t>(graph.nodes().size());
  return graph;
}

CompileResult compile(Graph graph, const CompileOptions& options, const Backend& backend) {
  CompileResult result;
  graph = run_pipeline(std::move(graph), options, backend, &result.passes, &result.dispatch,
                       &result.fusion);
  result.lir.program = std::make_shared<const Program>(lower(graph, options, backend, result.dispatch));
  result.mir = std::make_shared<const Graph>(std::move(graph));
  if (asks_for_report()) {
    const DispatchReport& report = result.dispatch;
    std::fputs(fmt::format("# dispatch of {}\n{}", result.mir->name, report.text()).c_str(), stderr);
  }
  return result;
}

CompileResult CompileResult::specialize(const DimBinding& upper, const SpecializeOptions& options) const {
  CompileResult bound = *this;
  bound.lir.plan = std::make_shared<const Plan>(rlx::specialize(*lir.program, upper, options));
  return bound;
}

}  // namespace rlx
