// rlx inspect: a model's summary, its stages in the compiler, its kernels.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/inspect_json.h"
#include "cli/output.h"
#include "cli/session_flags.h"
#include "compiler/pipeline.h"
#include "ir/print.h"
#include "runtime/backends.h"
#include "runtime/executor.h"

namespace rlx::cli {
namespace {

using nlohmann::ordered_json;

struct InspectFlags {
  std::string model;
  std::optional<std::string> stage, part, format, symbols, output;
  bool dispatch = false, json = false, no_passes = false;
  SessionFlags session;
};

/// "rows=1,out_rows=1". Errors (usage).
DimBinding parse_symbols(const std::string& text) {
  DimBinding binding;
  for (const std::string& part : split_list(text)) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0)
      fail(ErrorCode::usage, "--symbols: expected NAME=SIZE with commas between, found \"{}\"",
           part);
    const std::string symbol = part.substr(0, equals);
    const std::int64_t size =
        parse_integer("--symbols " + symbol, part.substr(equals + 1), {0, 1 << 24});
    try {
      if (binding.get(Symbol::named(symbol)))
        fail(ErrorCode::usage, "{} is given twice", symbol);
      binding.set(Symbol::named(symbol), size);
    } catch (const Error& e) {
      fail(ErrorCode::usage, "--symbols: {}", e.what());
    }
  }
  return binding;
}

void check(const InspectFlags& f) {
  const std::string stage = f.stage.value_or("hir"), format = f.format.value_or("text");
  if (stage != "hir" && stage != "mir" && stage != "lir")
    fail(ErrorCode::usage, "--stage: expected hir, mir or lir, found \"{}\"", stage);
  if (format == "svg" || format == "html")
    fail(ErrorCode::usage, "--format {}: not available yet; expected text or json", format);
  if (format != "text" && format != "json")
    fail(ErrorCode::usage, "--format: expected text or json, found \"{}\"", format);
  if (f.dispatch && f.stage)
    fail(ErrorCode::usage, "rlx inspect: expected one of --stage and --dispatch, found both");
  if (f.no_passes && stage != "mir")
    fail(ErrorCode::usage, "--no-passes is for --stage mir, found {}",
         f.stage ? "--stage " + stage : "no --stage");
  if (f.part && *f.part != "encoder" && *f.part != "decoder")
    fail(ErrorCode::usage, "--part: expected encoder or decoder, found \"{}\"", *f.part);
  if (f.part && !f.stage && !f.dispatch) fail(ErrorCode::usage, "--part needs --stage or --dispatch");
  if (f.symbols && !f.stage) fail(ErrorCode::usage, "--symbols needs --stage");
}

ordered_json summary(const LoadedModel& m) {
  const ModelInfo& i = m.model.info;
  ordered_json s = {{"name", i.name},
                    {"architecture", i.architecture},
                    {"kind", name(i.kind)},
                    {"layers", i.layers},
                    {"hidden", i.hidden},
                    {"inner", i.inner},
                    {"heads", i.heads},
                    {"kv_heads", i.kv_heads},
                    {"head_dim", i.head_dim},
                    {"vocab", i.vocab},
                    {"context", i.context},
                    {"parameters", i.parameters},
                    {"weight_bytes", i.weight_bytes},
                    {"weights_by_type", weight_types(m)},
                    {"chat_template", !m.chat_template.empty()},
                    {"unused_tensors", m.model.unused}};
  if (i.kind == ModelKind::vision) s["image"] = {i.channels, i.image_height, i.image_width};
  return s;
}

std::string summary_text(const ordered_json& s) {
  std::string text;
  for (const auto& [key, value] : s.items()) {
    const std::string shown =
        value.is_string() ? one_line(value.get<std::string>()) : one_line(json_text(value));
    text += fmt::format("{:<16} {}\n", key, shown);
  }
  return text;
}

/// LIR is placed for upper sizes, so every symbol has one.
std::string lir(const Graph& hir, const CompileOptions& options, const Backend& backend,
                const DimBinding& sizes, bool json, const SpecializeOptions& place) {
  const CompileResult compiled = compile(hir, options, backend);
  DimBinding upper;
  for (const Symbol s : collect_symbols(hir)) upper.set(s, 1);
  for (const auto& [symbol, size] : sizes.sizes()) upper.set(symbol, size);
  const Plan plan = specialize(*compiled.lir.program, upper, place);
  return json ? json_text(program_json(*compiled.lir.program, plan), 1) + "\n"
              : plan.text(*compiled.lir.program);
}

std::string stage_text(const InspectFlags& f, const LoadedModel& model, const DecoderOptions& options) {
  const Backend& backend = find_backend(options.device);
  const bool json = f.json || f.format == "json";
  const Graph& hir = model.model.graph;
  const std::vector<Symbol> known = collect_symbols(hir);
  DimBinding sizes = parse_symbols(f.symbols.value_or(""));
  for (const Symbol s : {sym::rows, sym::out_rows})
    if (!f.symbols && std::find(known.begin(), known.end(), s) != known.end()) sizes.set(s, 1);
  for (const auto& [symbol, size] : sizes.sizes())
    if (std::find(known.begin(), known.end(), symbol) == known.end()) {
      std::string list;
      for (const Symbol s : known) list += (list.empty() ? "" : ", ") + std::string(s.name());
      fail(ErrorCode::usage, "--symbols: this model has no size \"{}\": expected {}", symbol.name(), list);
    }
  if (f.stage == "lir") {
    const std::int64_t context = options.context > 0 ? options.context : model.model.info.context;
    return lir(hir, options.compile, backend, sizes, json, {std::max(options.threads, 1), context});
  }
  Graph graph = hir;
  if (f.stage == "mir" && f.no_passes) {
    const std::string only[] = {"expand_blocks"};  // lowering alone
    run_passes(graph, only, {options.compile, backend, nullptr});
  } else if (f.stage == "mir") {
    DispatchReport report;
    std::vector<PassRun> runs;
    graph = run_pipeline(hir, options.compile, backend, &runs, &report);
  }
  if (!sizes.empty()) graph = bind(graph, sizes);
  return json ? json_text(graph_json(graph), 1) + "\n" : print(graph);
}

/// The graph that --part asks for, in the place of the model's.
void choose_part(const InspectFlags& f, LoadedModel& model) {
  if (!f.part) return;
  const ModelInfo info = model.model.info;
  if (info.kind != ModelKind::seq2seq)
    fail(ErrorCode::usage, "--part is for an encoder with a decoder; {} is of the kind {}", info.architecture,
         name(info.kind));
  if (*f.part == "decoder") std::swap(model.model, model.decoder);
  model.model.info = info;
}

std::string content(const InspectFlags& f) {
  const DecoderOptions options = f.session.options();
  BuildOptions build;
  build.context = options.context;
  LoadedModel model = load_model(f.model, build);
  choose_part(f, model);
  if (f.dispatch) {
    const DispatchReport report =
        compile(model.model.graph, options.compile, find_backend(options.device)).dispatch;
    return f.json || f.format == "json" ? report.json() + "\n" : report.text();
  }
  if (f.stage) return stage_text(f, model, options);
  const ordered_json s = summary(model);
  return f.json || f.format == "json" ? json_text(s) + "\n" : summary_text(s);
}

int run_inspect(const InspectFlags& f) {
  check(f);
  const std::string text = content(f);
  if (f.output)
    write_result(*f.output, text, f.model);
  else
    out().write(text);
  return 0;
}

Job declare_inspect(Arguments& a) {
  const auto f = std::make_shared<InspectFlags>();
  a.positional("MODEL", f->model, "GGUF file or model folder");
  a.text("--stage", f->stage,
         "hir, mir (after the passes) or lir; without it a summary of the model");
  a.text("--part", f->part, "Of an encoder with a decoder: encoder or decoder [encoder]");
  a.text("--format", f->format, "text or json [text]");
  a.text("--symbols", f->symbols,
         "Sizes of symbols; an empty text keeps them as they are [rows=1,out_rows=1]");
  a.flag("--no-passes", f->no_passes, "With --stage mir: as lowered, before the passes");
  a.flag("--dispatch", f->dispatch, "Which kernel each node gets, and why");
  a.flag("--json", f->json, "The same as --format json");
  a.text("-o,--output", f->output, "Write to this file");
  f->session.declare(a);
  return [f] { return run_inspect(*f); };
}

}  // namespace

const Command kInspect = {
    "inspect", "A model's summary, stages and kernels",
    "  rlx inspect model.gguf\n"
    "  rlx inspect model.gguf --stage mir --symbols rows=1,out_rows=1\n"
    "  rlx inspect model.gguf --stage lir --symbols rows=512,out_rows=1 -o plan.txt\n"
    "  rlx inspect model.gguf --dispatch --json\n",
    declare_inspect};

}  // namespace rlx::cli
