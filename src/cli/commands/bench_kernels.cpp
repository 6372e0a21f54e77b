// rlx bench kernels: every kernel of this machine against the reference of its op.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "runtime/bench_kernels.h"

namespace rlx::cli {
namespace {

using nlohmann::ordered_json;

constexpr IntegerRange kKernelThreads{1, 1024};

struct KernelBenchFlags {
  std::vector<std::string> ops;
  std::optional<std::int64_t> threads;
  bool json = false;
};

std::string row_text(const KernelBench& k) {
  return fmt::format("{:<44} {:<11} {:>12.1f} {:>12.1f} {:>8.1f}  {}{}\n", k.kernel, isa_name(k.isa), k.kernel_us,
                     k.reference_us, k.factor, k.sample, k.reason.empty() ? "" : "  (" + k.reason + ")");
}

ordered_json row_json(const KernelBench& k) {
  return {{"kernel", k.kernel},
          {"isa", isa_name(k.isa)},
          {"sample", k.sample},
          {"factor", k.factor},
          {"reason", k.reason.empty() ? ordered_json(nullptr) : ordered_json(k.reason)}};
}

int run_bench_kernels(const KernelBenchFlags& f) {
  const InterruptScope scope;
  KernelBenchOptions options;
  options.ops = f.ops;
  options.threads = static_cast<int>(f.threads.value_or(1));
  options.cancelled = InterruptScope::interrupted;
  if (!f.json) {
    out().write(fmt::format("{:<44} {:<11} {:>12} {:>12} {:>8}  {}\n", "kernel", "isa", "us", "reference us", "factor",
                            "sample"));
    options.on_row = [](const KernelBench& k) {
      out().write(row_text(k));
      out().flush();
    };
  }
  const std::vector<KernelBench> rows = bench_kernels(options);
  if (InterruptScope::interrupted()) return kExitInterrupted;
  if (f.json) {
    ordered_json list = ordered_json::array();
    for (const KernelBench& k : rows) list.push_back(row_json(k));
    write_json(list);
  }
  return 0;
}

Job declare_bench_kernels(Arguments& a) {
  const auto f = std::make_shared<KernelBenchFlags>();
  a.texts("--op", f->ops, "Ops whose kernels are timed [all]");
  a.integer("-t,--threads", f->threads, kKernelThreads, "Threads of the kernels; references have one [1]");
  a.flag("--json", f->json, "One JSON array");
  return [f] { return run_bench_kernels(*f); };
}

}  // namespace

const Command kBenchKernels = {"bench kernels", "Speed of each kernel over the reference of its op",
                               "  rlx bench kernels --op linear,rms_norm\n"
                               "  RLX_ISA=avx2 rlx bench kernels --json\n",
                               declare_bench_kernels};

}  // namespace rlx::cli
