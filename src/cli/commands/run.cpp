// rlx run: raw completion.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cli/allocations.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/lines.h"
#include "cli/output.h"
#include "cli/process_memory.h"
#include "cli/session_flags.h"
#include "runtime/chat_session.h"
#include "runtime/text_model.h"

namespace rlx::cli {
namespace {

using nlohmann::ordered_json;

struct RunFlags {
  std::string model;
  std::optional<std::string> model_flag, prompt, file, lora;
  bool json = false, stats = false, ignore_eos = false;
  SessionFlags session;
  SamplingFlags sampling;

  std::string path() const {
    if (model_flag && !model.empty())
      fail(ErrorCode::usage, "rlx run: the model is given twice: \"{}\" and -m \"{}\"", model,
           *model_flag);
    if (!model_flag && model.empty())
      fail(ErrorCode::usage, "rlx run: MODEL is missing; see `rlx run --help`");
    return model_flag ? *model_flag : model;
  }
  std::string text() const {
    if (prompt.has_value() == file.has_value())
      fail(ErrorCode::usage, "rlx run: expected one of -p TEXT and -f FILE, found {}",
           prompt ? "both" : "none");
    return prompt ? *prompt : read_text(*file);
  }
};

ordered_json stats_json(const TextModel& model, const GenerateResult& result) {
  const DecoderStats s = model.decoder().stats();
  return {{"compiles", s.compiles},
          {"passes", s.passes},
          {"prologue_runs", s.prologue_runs},
          {"steady_runs", s.steady_runs},
          {"epilogue_rows", s.epilogue_rows},
          {"packed_tensors", s.packed_tensors},
          {"step_allocations", result.step_allocations},
          {"cache_hits", s.cache.hits},
          {"cache_misses", s.cache.misses},
          {"cache_rebuilds", s.cache.rebuilds},
          {"load_ms", model.load_ms()},
          {"rss_mb", resident_mib()},
          {"specializations", s.specializations},
          {"weight_bytes", s.weight_bytes},
          {"arena_bytes", s.arena_bytes},
          {"kv_bytes", s.kv_bytes},
          {"scratch_bytes", s.scratch_bytes}};
}

// The phases of a session (docs/compiler.md) and what was made for them.
std::string counters_text(const DecoderStats& s) {
  return fmt::format("prologue {} | steps {} | LM head rows {} | templates {} | sizes {} | packed tensors {}",
                     s.prologue_runs, s.steady_runs, s.epilogue_rows, s.compiles, s.specializations, s.packed_tensors);
}

ordered_json timings_json(const GenerateResult& r) {
  return {{"prompt_n", r.prompt_tokens - r.cached_tokens},
          {"prompt_ms", r.prompt_ms},
          {"prompt_per_second", r.prompt_per_second()},
          {"predicted_n", r.ids.size()},
          {"predicted_ms", r.decode_ms},
          {"predicted_per_second", r.decode_per_second()}};
}

int finish(const RunFlags& f, const TextModel& model, const GenerateResult& result,
           const std::string& text) {
  if (f.json) {
    ordered_json json = {{"text", text},
                         {"ids", result.ids},
                         {"prompt_tokens", result.prompt_tokens},
                         {"finish_reason", name(result.reason)},
                         {"timings", timings_json(result)}};
    if (f.stats) json["stats"] = stats_json(model, result);
    if (result.reason == FinishReason::error) json["error"] = result.error;
    write_json(json);
  } else {
    if (!text.empty() || result.reason != FinishReason::error) out().write("\n");
    out().flush();
    if (f.stats) {
      say(counters_text(model.decoder().stats()));
      say(speed_text(model, result));
    }
  }
  if (result.reason == FinishReason::error) {
    say("rlx: " + one_line(result.error));
    return 1;
  }
  return result.reason == FinishReason::cancelled ? kExitInterrupted : 0;
}

int run_run(const RunFlags& f) {
  const std::string path = f.path(), prompt_text = f.text();
  DecoderOptions decoder_options = f.session.options();
  decoder_options.lora = f.lora.value_or("");
  TextModel model(path, decoder_options);
  f.session.warn_of_context(model.decoder().info());
  std::string origin;
  Sampler sampler(resolve_sampling(f.sampling.wishes, model.decoder().model().hints, &origin));
  const std::vector<std::int32_t> prompt = model.tokenizer().encode(prompt_text);
  if (prompt.empty())
    fail(ErrorCode::usage,
         "rlx run: the prompt has no token, and this tokenizer adds none: expected some text");
  GenerateOptions options;
  options.max_tokens = f.sampling.tokens.value_or(-1);
  if (!f.ignore_eos) options.ends = model.ends();
  options.cancelled = InterruptScope::interrupted;
  options.allocations = allocation_count;
  const InterruptScope scope;
  std::string text;
  const GenerateResult result =
      generate_text(model, prompt, 0, sampler, options, [&](std::string_view piece) {
        // Not before: what is wrong with the prompt is then the only line.
        if (text.empty() && !piece.empty() && sampler.options().temperature > 0)
          say(fmt::format("sampling: {}, seed {}", origin, sampler.seed()));
        text += piece;
        if (f.json) return;
        out().write(piece);
        out().flush();
      });
  return finish(f, model, result, text);
}

Job declare_run(Arguments& a) {
  const auto f = std::make_shared<RunFlags>();
  a.positional("MODEL", f->model, "GGUF file, model folder, or a file of `rlx compile`", false);
  a.text("-m,--model", f->model_flag, "The same as MODEL");
  a.text("-p,--prompt", f->prompt, "Text to continue");
  a.text("-f,--file", f->file, "File with the text to continue");
  a.text("--lora", f->lora, "Adapter of `rlx tune`, or of the PEFT library: a safetensors file or its folder");
  f->sampling.declare(a);
  a.flag("--ignore-eos", f->ignore_eos, "Do not stop at the end of the text");
  a.flag("--json", f->json, "One JSON object instead of the text");
  a.flag("--stats", f->stats, "Counters, times and memory: on stderr, with --json in the object");
  f->session.declare(a);
  return [f] { return run_run(*f); };
}

}  // namespace

const Command kRun = {"run", "Continue a text",
                      "  rlx run model.gguf -p \"Once upon a time\" -n 64\n"
                      "  rlx run model.gguf -p \"2 + 2 =\" -n 8 --temp 0 --json --stats\n"
                      "  rlx run model-folder -f prompt.txt --temp 0.7 --seed 1\n",
                      declare_run};

}  // namespace rlx::cli
