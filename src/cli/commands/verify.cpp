// rlx verify: goldens of tiny models, or a real model against its reference.
#include "runtime/verify.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/session_flags.h"
#include "runtime/artefact.h"

namespace rlx::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// With float32 activations (goldens/README.md): KL per text, and the margin below which greedy text
// may differ. With int8 activations the limit of the KL depends on another program's, so only the
// margin is judged.
constexpr double kMeanKl = 1e-5, kExactMargin = 1e-3, kInt8Margin = 0.3;

struct VerifyFlags {
  std::vector<std::string> paths;
  std::optional<std::string> model, reference;
  std::optional<double> tolerance;
  bool no_fusion = false, json = false;
  SessionFlags session;
};

ordered_json to_json(const GoldenResult& r) {
  ordered_json json = {
      {"name", r.name},
      {"diff", r.diff},
      {"tolerance", r.tolerance},
      {"ok", r.ok},
      {"kernels", {{"native", r.native}, {"common", r.common}, {"reference", r.reference}}}};
  if (!r.why.empty()) json["why"] = r.why;
  return json;
}

/// One folder of several that cannot be run is a failure of the check, not of the command.
GoldenResult verify_one(const fs::path& folder, const GoldenOptions& options, bool alone) {
  if (alone) return verify_golden(folder, options);
  try {
    return verify_golden(folder, options);
  } catch (const Error& e) {
    GoldenResult r;
    r.name = folder.filename().string();
    r.tolerance = options.tolerance.value_or(0);
    r.why = e.what();
    return r;
  }
}

int verify_paths(const VerifyFlags& f) {
  if (f.session.activations || f.session.kv || f.session.fast)
    fail(ErrorCode::usage,
         "rlx verify PATH always uses float32 activations: --activations, --kv and --fast are for "
         "--model");
  if (f.model || f.reference)
    fail(ErrorCode::usage, "rlx verify: expected PATHs or --model with --reference, found both");
  GoldenOptions options;
  options.decoder = f.session.options(true);
  options.decoder.compile.fusion = !f.no_fusion;
  options.tolerance = f.tolerance;
  std::vector<fs::path> folders;
  for (const std::string& path : f.paths)
    for (fs::path& folder : golden_folders(path)) folders.push_back(std::move(folder));
  ordered_json list = ordered_json::array();
  bool ok = true;
  for (const fs::path& folder : folders) {
    const GoldenResult r = verify_one(folder, options, folders.size() == 1);
    ok = ok && r.ok;
    if (f.json)
      list.push_back(to_json(r));
    else
      out().write(fmt::format("{:<24} {:.3e} {:.1e} {}\n", r.name, r.diff, r.tolerance,
                              r.ok ? "ok" : "FAIL"));
    out().flush();
    if (!r.ok && !r.why.empty()) say(fmt::format("{}: {}", r.name, one_line(r.why)));
  }
  if (f.json) write_json(list);
  return ok ? 0 : 1;
}

ordered_json to_json(const ReferenceResult& r) {
  ordered_json json = {{"texts", ordered_json::array()}, {"chats", ordered_json::array()}};
  for (const TextDistance& t : r.texts)
    json["texts"].push_back({{"mean_kl", t.mean_kl}, {"max_kl", t.max_kl}, {"top1", t.top1}});
  for (const ChatMatch& c : r.chats)
    json["chats"].push_back(
        {{"first_mismatch",
          c.first_mismatch ? ordered_json(*c.first_mismatch) : ordered_json(nullptr)},
         {"margin", c.margin ? ordered_json(*c.margin) : ordered_json(nullptr)}});
  return json;
}

void print(const ReferenceResult& r) {
  for (std::size_t i = 0; i < r.texts.size(); ++i)
    out().write(fmt::format("text {}: KL mean {:.3e}, largest {:.3e}; same best token {:.1f} %\n",
                            i, r.texts[i].mean_kl, r.texts[i].max_kl, 100 * r.texts[i].top1));
  for (std::size_t i = 0; i < r.chats.size(); ++i) {
    const ChatMatch& c = r.chats[i];
    out().write(c.first_mismatch
                    ? fmt::format("chat {}: differs at token {}, where the margin is {:.3g}\n", i,
                                  *c.first_mismatch, *c.margin)
                    : fmt::format("chat {}: equal\n", i));
  }
}

/// The limits that hold for the precision in use.
bool within_limits(const ReferenceResult& r, bool exact) {
  bool ok = true;
  for (std::size_t i = 0; i < r.texts.size() && exact; ++i)
    if (r.texts[i].mean_kl >= kMeanKl) {
      say(fmt::format("text {}: mean KL {:.3e}: expected below {:.0e} with float32 activations", i,
                      r.texts[i].mean_kl, kMeanKl));
      ok = false;
    }
  for (std::size_t i = 0; i < r.chats.size(); ++i) {
    const ChatMatch& c = r.chats[i];
    if (!c.first_mismatch) continue;
    // With int8 activations a text may part from the reference's at the first close call, and is
    // another text from there on.
    const double limit = exact ? kExactMargin : kInt8Margin,
                 margin = exact ? *c.margin : c.least_margin;
    if (margin < limit) continue;
    say(fmt::format("chat {}: differs at token {}, where the margin {:.3g} is not below {}", i,
                    *c.first_mismatch, margin, limit));
    ok = false;
  }
  return ok;
}

int verify_model(const VerifyFlags& f) {
  if (!f.model || !f.reference)
    fail(ErrorCode::usage,
         "rlx verify: expected PATHs, or --model FILE with --reference FILE; see `rlx verify "
         "--help`");
  if (f.tolerance)
    fail(ErrorCode::usage,
         "rlx verify: --tolerance is for PATHs; with --reference the limits are fixed");
  DecoderOptions options = f.session.options(true);
  options.compile.fusion = !f.no_fusion;
  BuildOptions build;
  build.context = options.context;
  const fs::path model = resolve_artefact(*f.model, options);
  Decoder decoder(load_model(model, build), options);
  const ReferenceResult r = verify_reference(decoder, *f.reference);
  if (f.json)
    write_json(to_json(r));
  else
    print(r);
  out().flush();
  return within_limits(r, options.compile.precision.activations == Activations::f32) ? 0 : 1;
}

Job declare_verify(Arguments& a) {
  const auto f = std::make_shared<VerifyFlags>();
  a.positionals("PATH", f->paths,
                "Model folders with cases.json and cases.safetensors, or folders of such");
  a.number("--tolerance", f->tolerance, {0, 1e6}, "Largest difference [that of cases.json]");
  a.text("-m,--model", f->model, "A real model, with --reference");
  a.text("--reference", f->reference, "Its reference results, a safetensors file");
  a.flag("--no-fusion", f->no_fusion, "Run only the passes that correctness needs");
  a.flag("--json", f->json, "JSON instead of lines");
  f->session.declare(a);
  return [f] { return f->paths.empty() ? verify_model(*f) : verify_paths(*f); };
}

}  // namespace

const Command kVerify = {
    "verify", "Compare a model with reference results",
    "  rlx verify tests/goldens/models/llama\n"
    "  rlx verify tests/goldens/models --threads 2 --json\n"
    "  rlx verify --model model.gguf --reference model.safetensors --activations f32 --json\n",
    declare_verify};

}  // namespace rlx::cli
