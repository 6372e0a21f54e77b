// rlx opt: IR text through named passes.
#include <iostream>
#include <iterator>

#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/lines.h"
#include "cli/output.h"
#include "compiler/pass.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "runtime/backends.h"

namespace rlx::cli {
namespace {

constexpr std::uint64_t kMaxTextBytes = 256u << 20;

struct OptFlags {
  std::string file;
  std::vector<std::string> passes;
  std::optional<std::string> device;
  bool list = false;
};

int run_opt(const OptFlags& f) {
  if (f.list) {
    for (const Pass& p : pipeline_passes())
      out().write(fmt::format("{}{}\n", p.name, p.required ? " (always runs)" : ""));
    return 0;
  }
  if (f.file.empty())
    fail(ErrorCode::usage, "rlx opt: FILE is missing (- is stdin); see `rlx opt --help`");
  const bool standard = f.file == "-";
  if (!standard) refuse_compiled_file(f.file);
  const std::string text = standard ? std::string(std::istreambuf_iterator<char>(std::cin), {})
                                    : read_file(f.file, kMaxTextBytes);
  Graph graph = parse_graph(text, standard ? "stdin" : f.file);
  CompileOptions options;
  options.dispatch = KernelDispatchConfig::from_environment();
  run_passes(graph, f.passes,
             {options, find_backend(f.device ? Device::parse(*f.device) : Device::cpu()), nullptr});
  out().write(print(graph));
  return 0;
}

Job declare_opt(Arguments& a) {
  const auto f = std::make_shared<OptFlags>();
  a.positional("FILE", f->file, "IR text; - is stdin", false);
  a.texts("--passes", f->passes, "Passes to run, in this order; none: the text is printed as read");
  a.text("--device", f->device, "Whose kernels the passes ask for: cpu or reference [cpu]");
  a.flag("--list", f->list, "List the passes in the order of the pipeline");
  return [f] { return run_opt(*f); };
}

}  // namespace

const Command kOpt = {
    "opt", "IR text through passes of the compiler",
    "  rlx inspect model.gguf --stage hir | rlx opt --passes expand_blocks,cse -\n"
    "  rlx opt --list\n",
    declare_opt};

}  // namespace rlx::cli
