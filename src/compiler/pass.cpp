#include "compiler/pass.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "ir/print.h"
#include "ir/stage.h"

namespace rlx {
namespace {

bool print_after_each() {
  const char* value = std::getenv("RLX_PRINT");
  return value != nullptr && std::string_view(value) == "after-each";
}

// Edit distance, for the nearest name in a message.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t up = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      diagonal = up;
    }
  }
  return row[b.size()];
}

const Pass& find_pass(std::string_view name) {
  const std::span<const Pass> all = pipeline_passes();
  const auto it =
      std::find_if(all.begin(), all.end(), [&](const Pass& p) { return p.name == name; });
  if (it != all.end()) return *it;
  const auto nearest = std::min_element(all.begin(), all.end(), [&](const Pass& x, const Pass& y) {
    return distance(x.name, name) < distance(y.name, name);
  });
  fail(ErrorCode::usage, "unknown pass \"{}\": did you mean \"{}\"?", name, nearest->name);
}

}  // namespace

PassRun run_pass(Graph& graph, const Pass& pass, const PassContext& context) {
  PassRun run{std::string(pass.name), false, 0, static_cast<std::int64_t>(graph.nodes().size()), 0};
  std::vector<std::pair<std::string, Shape>> before;
  for (const Output& o : graph.outputs()) before.emplace_back(o.name, graph.shape(o.value));
  const auto start = std::chrono::steady_clock::now();
  run.changed = pass.run(graph, context);
  run.us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  run.nodes_after = static_cast<std::int64_t>(graph.nodes().size());
  if (context.options.verify_each_pass) {
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
