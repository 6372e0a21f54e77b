// rlx bench compiler: how long the compiler takes, beside what it may take.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/output.h"
#include "runtime/bench_compiler.h"

namespace rlx::cli {
namespace {

using nlohmann::ordered_json;

struct CompilerBenchFlags {
  std::optional<std::int64_t> layers, repetitions, aot_mib;
  std::optional<std::string> device;
  bool json = false;
};

std::string target_row(std::string_view what, std::string_view measured, double value, double most,
                       std::string_view target) {
  return fmt::format("{:<52} {:>12}   {:<32} {}\n", what, measured, target, value <= most ? "ok" : "above");
}

std::string table(const CompilerBench& b, std::int64_t layers) {
  std::string text = fmt::format("{} layers, {} nodes of MIR, {} calls\n", layers, b.nodes, b.calls);
  text += fmt::format("{:<52} {:>12}   {}\n", "", "median", "target");
  const auto us = [](double v) { return fmt::format("{:.2f} us", v); };
  const auto ms = [](double v) { return fmt::format("{:.2f} ms", v); };
  text += target_row("template: flow, passes with verifier, lowering", ms(b.template_ms), b.template_ms, 10,
                     "at most 10 ms (goal 3 ms)");
  text += fmt::format("{:<52} {:>12}\n", "  the processor's time of it", ms(b.template_cpu_ms));
  text += fmt::format("{:<52} {:>12}\n", "  of it the flow (HIR)", ms(b.hir_ms));
  text += target_row("new size to a runnable executable", us(b.specialize_us), b.specialize_us, 1000,
                     "at most 1 ms (goal 150 us)");
  text += fmt::format("{:<52} {:>12}\n", "  the processor's time of it", us(b.specialize_cpu_us));
  text += fmt::format("{:<52} {:>12}\n", "  the plan alone, rows of full width", us(b.place_us));
  text += target_row("hit in get_or_compile", us(b.hit_us), b.hit_us, 2, "at most 2 us");
  text += target_row("key of a variant", us(b.variant_key_us), b.variant_key_us, 1, "at most 1 us");
  text += target_row("key of a component", us(b.component_key_us), b.component_key_us, 1, "at most 1 us");
  text += target_row("key of an executable", us(b.executable_key_us), b.executable_key_us, 1, "at most 1 us");
  text += target_row("verifier, per 100 nodes", us(b.verify_us), b.verify_us, 20, "at most 20 us");
  if (b.aot.load_ms > 0)
    text += target_row(fmt::format("start of an artefact of {} MiB to its first op", b.aot.bytes >> 20),
                       ms(b.aot.load_ms), b.aot.load_ms, 50, "at most 50 ms for 1 GB");
  else
    text += fmt::format("{:<52} {:>12}   {}\n", "start of an artefact to its first op", "-",
                        b.aot.reason.empty() ? "left out" : b.aot.reason);
  text += target_row("arena over its lower bound, worst of 8 sizes", fmt::format("{:.3f} x", b.arena_over_bound),
                     b.arena_over_bound, 1.05, "at most 1.05 x");
  text += target_row("bytes of weights copied or read",
                     fmt::format("{} B", b.weight_bytes_copied), static_cast<double>(b.weight_bytes_copied), 0, "none");
  return text;
}

ordered_json json_of(const CompilerBench& b, std::int64_t layers) {
  return {{"template_ms", b.template_ms},
          {"specialize_us", b.specialize_us},
          {"hit_us", b.hit_us},
          {"key_us", b.key_us()},
          {"aot_load_ms", b.aot.load_ms > 0 ? ordered_json(b.aot.load_ms) : ordered_json(nullptr)},
          {"arena_over_bound", b.arena_over_bound},
          {"aot_bytes", b.aot.bytes},
          {"layers", layers},
          {"nodes", b.nodes},
          {"calls", b.calls},
          {"hir_ms", b.hir_ms},
          {"template_cpu_ms", b.template_cpu_ms},
          {"specialize_cpu_us", b.specialize_cpu_us},
          {"place_us", b.place_us},
          {"variant_key_us", b.variant_key_us},
          {"component_key_us", b.component_key_us},
          {"executable_key_us", b.executable_key_us},
          {"verify_us_per_100_nodes", b.verify_us},
          {"weight_bytes_copied", b.weight_bytes_copied}};
}

int run_bench_compiler(const CompilerBenchFlags& f) {
  CompilerBenchOptions options;
  options.layers = f.layers.value_or(options.layers);
  options.repetitions = f.repetitions.value_or(options.repetitions);
  options.aot_mib = f.aot_mib.value_or(options.aot_mib);
  if (f.device) options.device = Device::parse(*f.device);
  const CompilerBench result = bench_compiler(options);
  if (f.json)
    write_json(json_of(result, options.layers));
  else
    out().write(table(result, options.layers));
  return 0;
}

Job declare_bench_compiler(Arguments& a) {
  const auto f = std::make_shared<CompilerBenchFlags>();
  a.integer("--layers", f->layers, {1, 1024}, "Layers of the decoder, which has shapes and no weights [32]");
  a.integer("-r,--repetitions", f->repetitions, {1, 10000},
            "Repetitions of a template build; more of what is short [20]");
  a.integer("--aot-mib", f->aot_mib, {0, 65536},
            "MiB of the artefact that is written to TMPDIR and started from; 0: none [1024]");
  a.text("--device", f->device, "cpu or reference [cpu]");
  a.flag("--json", f->json, "One JSON object");
  return [f] { return run_bench_compiler(*f); };
}

}  // namespace

const Command kBenchCompiler = {"bench compiler", "Speed of the compiler, beside its targets",
                                "  rlx bench compiler --layers 32\n"
                                "  rlx bench compiler --json\n",
                                declare_bench_compiler};

}  // namespace rlx::cli
