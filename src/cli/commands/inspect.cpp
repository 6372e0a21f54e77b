// rlx inspect: a model's summary, its stages in the compiler, its kernels, as text, JSON, a picture or a page.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/inspect_json.h"
#include "cli/inspect_page.h"
#include "cli/inspect_svg.h"
#include "cli/lines.h"
#include "cli/output.h"
#include "cli/session_flags.h"
#include "compiler/pipeline.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "runtime/backends.h"

namespace rlx::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kMaxInspectedText = 256u << 20;
constexpr const char* kDefaultSymbols = "rows=1,out_rows=1";

struct InspectFlags {
  std::string model;
  std::optional<std::string> stage, part, format, output, group;
  std::vector<std::string> symbols;
  bool dispatch = false, fusion = false, json = false, no_passes = false;
  SessionFlags session;

  bool drawn() const { return format == "svg" || format == "html"; }
  bool as_json() const { return json || format == "json"; }
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

void check_format(const InspectFlags& f) {
  const std::string format = f.format.value_or("text");
  if (format != "text" && format != "json" && !f.drawn())
    fail(ErrorCode::usage, "--format: expected text, json, svg or html, found \"{}\"", format);
  if (f.json && f.format && format != "json")
    fail(ErrorCode::usage, "rlx inspect: expected one of --json and --format {}, found both", format);
  if (f.drawn() && (f.dispatch || f.fusion))
    fail(ErrorCode::usage, "--{}: expected --format text or json, found {} (the html page has both reports)",
         f.dispatch ? "dispatch" : "fusion", format);
  if (f.drawn() && f.no_passes) fail(ErrorCode::usage, "--no-passes: expected --format text or json, found {}", format);
  if (f.group && format != "svg") fail(ErrorCode::usage, "--group is for --format svg, found {}", format);
  if (f.symbols.size() > 2 || (f.symbols.size() == 2 && format != "html"))
    fail(ErrorCode::usage, "--symbols: expected once, or twice with --format html, found {} times", f.symbols.size());
}

void check(const InspectFlags& f) {
  const std::string stage = f.stage.value_or("hir");
  if (stage != "hir" && stage != "mir" && stage != "lir")
    fail(ErrorCode::usage, "--stage: expected hir, mir or lir, found \"{}\"", stage);
  if (f.dispatch && f.stage)
    fail(ErrorCode::usage, "rlx inspect: expected one of --stage and --dispatch, found both");
  if (f.fusion && (f.stage || f.dispatch))
    fail(ErrorCode::usage, "rlx inspect: expected one of --{} and --fusion, found both",
         f.stage ? "stage" : "dispatch");
  check_format(f);
  if (f.no_passes && stage != "mir")
    fail(ErrorCode::usage, "--no-passes is for --stage mir, found {}",
         f.stage ? "--stage " + stage : "no --stage");
  if (f.part && *f.part != "encoder" && *f.part != "decoder")
    fail(ErrorCode::usage, "--part: expected encoder or decoder, found \"{}\"", *f.part);
  if (f.part && !f.stage && !f.dispatch && !f.fusion && !f.drawn())
    fail(ErrorCode::usage, "--part needs --stage, --dispatch, --fusion, or --format svg or html");
  if (!f.symbols.empty() && !f.stage && !f.drawn())
    fail(ErrorCode::usage, "--symbols needs --stage, or --format svg or html");
}

/// What is looked at: a model, or IR text by itself.
struct Subject {
  std::optional<LoadedModel> model;
  Graph graph;
  std::int64_t context = 0;
};

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

Subject read_subject(const InspectFlags& f, const DecoderOptions& options) {
  Subject s;
  s.context = options.context;
  refuse_compiled_file(f.model);
  if (f.model.ends_with(".rlx")) {
    if (f.part) fail(ErrorCode::usage, "--part is for models, and {} is IR text", f.model);
    s.graph = parse_graph(read_file(f.model, kMaxInspectedText), f.model);
    return s;
  }
  BuildOptions build;
  build.context = options.context;
  s.model = load_model(f.model, build);
  choose_part(f, *s.model);
  s.graph = s.model->model.graph;
  if (s.context == 0) s.context = s.model->model.info.context;
  return s;
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

ordered_json summary(const Graph& graph) {
  std::map<std::string, std::int64_t> ops;
  for (const Node& n : graph.nodes()) ++ops[std::string(n.def->name)];
  std::vector<std::string> symbols, outputs;
  for (const Symbol s : collect_symbols(graph)) symbols.emplace_back(s.name());
  for (const auto& o : graph.outputs()) outputs.push_back(o.name);
  return {{"name", graph.name}, {"stage", name(graph.stage)}, {"nodes", graph.nodes().size()},
          {"symbols", symbols}, {"outputs", outputs},         {"ops", ops}};
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

/// The sizes of each --symbols. Errors (usage): a symbol that the graph does not have.
std::vector<DimBinding> variants(const InspectFlags& f, const Graph& graph) {
  const std::vector<Symbol> known = collect_symbols(graph);
  std::vector<DimBinding> all;
  for (const std::string& text : f.symbols) {
    all.push_back(parse_symbols(text));
    for (const auto& [symbol, size] : all.back().sizes()) {
      if (std::find(known.begin(), known.end(), symbol) != known.end()) continue;
      std::string list;
      for (const Symbol s : known) list += (list.empty() ? "" : ", ") + std::string(s.name());
      fail(ErrorCode::usage, "--symbols: this model has no size \"{}\": expected {}", symbol.name(),
           list.empty() ? "none" : list);
    }
  }
  if (!all.empty()) return all;
  DimBinding step;
  const DimBinding usual = parse_symbols(kDefaultSymbols);
  for (const auto& [symbol, size] : usual.sizes())
    if (std::find(known.begin(), known.end(), symbol) != known.end()) step.set(symbol, size);
  return {step};
}

std::string stage_text(const InspectFlags& f, const Subject& subject, const DecoderOptions& options) {
  const Backend& backend = find_backend(options.device);
  const DimBinding sizes = variants(f, subject.graph).front();
  const Graph& given = subject.graph;
  if (f.stage == "lir") {
    // LIR is placed for upper sizes, so every symbol has one.
    const CompileResult compiled = compile(given, options.compile, backend);
    const Program& program = *compiled.lir.program;
    const Plan plan =
        specialize(program, complete(given, sizes), {std::max(options.threads, 1), subject.context});
    return f.as_json() ? json_text(program_json(program, plan), 1) + "\n" : plan.text(program);
  }
  if (f.stage == "hir" && given.stage == Stage::mir)
    fail(ErrorCode::usage, "--stage hir: {} holds mir", f.model);
  Graph graph = given;
  if (f.stage == "mir" && f.no_passes) {
    const std::string only[] = {"expand_blocks"};  // lowering alone
    run_passes(graph, only, {options.compile, backend, nullptr});
  } else if (f.stage == "mir") {
    DispatchReport report;
    std::vector<PassRun> runs;
    graph = run_pipeline(given, options.compile, backend, &runs, &report);
  }
  if (!sizes.empty()) graph = bind(graph, sizes);
  return f.as_json() ? json_text(graph_json(graph), 1) + "\n" : print(graph);
}

std::string drawing(const InspectFlags& f, const Subject& subject, const DecoderOptions& options) {
  const bool svg = f.format == "svg";
  const std::string stage = f.stage.value_or(svg ? "mir" : "lir");
  const std::vector<DimBinding> sizes = variants(f, subject.graph);
  Inspection all = inspect(subject.graph, compile(subject.graph, options.compile, find_backend(options.device)), sizes,
                           {std::max(options.threads, 1), subject.context});
  const auto graph =
      std::find_if(all.graphs.begin(), all.graphs.end(), [&](const InspectedGraph& g) { return g.stage == stage; });
  if (graph == all.graphs.end()) fail(ErrorCode::usage, "--stage {}: {} holds mir", stage, f.model);
  return svg ? graph_svg(*graph, all.variants[0], f.group.value_or("")) : page_html(all, stage);
}

std::string content(const InspectFlags& f) {
  const DecoderOptions options = f.session.options();
  const Subject subject = read_subject(f, options);
  if (f.drawn()) return drawing(f, subject, options);
  if (f.dispatch || f.fusion) {
    const CompileResult compiled = compile(subject.graph, options.compile, find_backend(options.device));
    if (f.dispatch) return f.as_json() ? compiled.dispatch.json() + "\n" : compiled.dispatch.text();
    return f.as_json() ? compiled.fusion.json() + "\n" : compiled.fusion.text();
  }
  if (f.stage) return stage_text(f, subject, options);
  const ordered_json s = subject.model ? summary(*subject.model) : summary(subject.graph);
  return f.as_json() ? json_text(s) + "\n" : summary_text(s);
}

int run_inspect(const InspectFlags& f) {
  check(f);
  const std::vector<std::string> inputs = f.session.inputs(f.model);
  if (f.output && *f.output != "-") check_result_path(*f.output, inputs);
  const std::string text = content(f);
  if (f.output)
    write_result(*f.output, text, inputs);
  else
    out().write(text);
  return 0;
}

Job declare_inspect(Arguments& a) {
  const auto f = std::make_shared<InspectFlags>();
  a.positional("MODEL", f->model, "GGUF file, model folder, or IR text (FILE.rlx)");
  a.text("--stage", f->stage,
         "hir, mir (after the passes) or lir; without it a summary, or what the drawing shows first");
  a.text("--part", f->part, "Of an encoder with a decoder: encoder or decoder [encoder]");
  a.text("--format", f->format, "text, json, svg (a picture) or html (a page) [text]");
  a.repeated("--symbols", f->symbols,
             "Sizes of symbols; an empty text keeps them as they are; twice with html: side by side "
             "[rows=1,out_rows=1]");
  a.text("--group", f->group, "With --format svg: the part to draw [all, or the first layer of a large graph]");
  a.flag("--no-passes", f->no_passes, "With --stage mir: as lowered, before the passes");
  a.flag("--dispatch", f->dispatch, "Which kernel each node gets, and why");
  a.flag("--fusion", f->fusion, "What the passes fused, and what they nearly fused");
  a.flag("--json", f->json, "The same as --format json");
  a.text("-o,--output", f->output, "Write to this file");
  f->session.declare(a, {.cache = true});
  return [f] { return run_inspect(*f); };
}

}  // namespace

const Command kInspect = {
    "inspect", "A model's summary, stages, kernels and plan",
    "  rlx inspect model.gguf\n"
    "  rlx inspect model.gguf --stage mir --symbols rows=1,out_rows=1\n"
    "  rlx inspect model.gguf --stage lir --symbols rows=512,out_rows=1 -o plan.txt\n"
    "  rlx inspect model.gguf --dispatch --json\n"
    "  rlx inspect model.gguf --format html --symbols rows=512 --symbols rows=1 -o page.html\n"
    "  rlx inspect model.gguf --format svg --group layers.0 -o layer.svg\n"
    "  rlx inspect graph.rlx --fusion\n",
    declare_inspect};

}  // namespace rlx::cli
