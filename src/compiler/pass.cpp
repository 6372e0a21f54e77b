#include "compiler/pass.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "base/nearest.h"
#include "ir/print.h"
#include "ir/stage.h"

namespace rlx {
namespace {

bool print_after_each() {
  const char* value = std::getenv("RLX_PRINT");
  return value != nullptr && std::string_view(value) == "after-each";
}

const Pass& find_pass(std::string_view name) {
  const std::span<const Pass> all = pipeline_passes();
  const auto it =
      std::find_if(all.begin(), all.end(), [&](const Pass& p) { return p.name == name; });
  if (it != all.end()) return *it;
  fail(ErrorCode::usage, "{}", unknown_pass(name));
}

}  // namespace

std::string unknown_pass(std::string_view name) {
  std::vector<std::string> names;
  for (const Pass& p : pipeline_passes()) names.emplace_back(p.name);
  return fmt::format("unknown pass \"{}\"{}", name, did_you_mean_of(name, names));
}

// The graph, then its sub-graphs: a pass sees one at a time. What a sub-graph takes and gives stays.
static bool run_with_subgraphs(Graph& graph, const Pass& pass, const PassContext& context) {
  bool changed = pass.run(graph, context);
  if (graph.nesting() == 0) return changed;
  std::vector<bool> done(graph.subgraph_count(), false);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i)
    for (GraphRef ref : subgraphs_of(graph.nodes()[i])) {
      if (done[static_cast<std::size_t>(ref.index)]) continue;
      done[static_cast<std::size_t>(ref.index)] = true;
      Graph sub = graph.subgraph(ref);
      if (!run_with_subgraphs(sub, pass, context)) continue;
      graph.replace_subgraph(ref, std::move(sub));
      changed = true;
    }
  return changed;
}

PassRun run_pass(Graph& graph, const Pass& pass, const PassContext& context) {
  PassRun run{std::string(pass.name), false, 0, static_cast<std::int64_t>(graph.nodes().size()), 0};
  std::vector<std::pair<std::string, Shape>> before;
  for (const Output& o : graph.outputs()) before.emplace_back(o.name, graph.shape(o.value));
  const auto start = std::chrono::steady_clock::now();
  run.changed = run_with_subgraphs(graph, pass, context);
  run.us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  run.nodes_after = static_cast<std::int64_t>(graph.nodes().size());
  // A graph that no pass touched was verified before.
  if (context.options.verify_each_pass && (run.changed || pass.always_verified)) {
    verify(graph, pass.name);
    RLX_CHECK(before.size() == graph.outputs().size(), std::string(pass.name));
    for (std::size_t i = 0; i < before.size(); ++i)
      RLX_CHECK(before[i].first == graph.outputs()[i].name &&
                    before[i].second == graph.shape(graph.outputs()[i].value),
                fmt::format("{} changed the output \"{}\"", pass.name, before[i].first));
  }
  if (run.changed && print_after_each())
    std::fputs(fmt::format("# after {}\n{}", pass.name, print(graph)).c_str(), stderr);
  return run;
}

std::vector<PassRun> run_passes(Graph& graph, std::span<const std::string> names,
                                const PassContext& context) {
  std::vector<const Pass*> chosen;
  for (const std::string& name : names) chosen.push_back(&find_pass(name));
  std::vector<PassRun> runs;
  for (const Pass* pass : chosen) runs.push_back(run_pass(graph, *pass, context));
  return runs;
}

}  // namespace rlx
