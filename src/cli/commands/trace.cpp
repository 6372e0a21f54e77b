// rlx trace: what every worker did while a prompt and some tokens ran.
#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/lines.h"
#include "cli/output.h"
#include "cli/session_flags.h"
#include "runtime/chat_session.h"
#include "runtime/text_model.h"
#include "runtime/trace.h"

namespace rlx::cli {
namespace {

struct TraceFlags {
  std::string model;
  std::optional<std::string> model_flag, prompt, file, output;
  std::optional<std::int64_t> tokens;
  SessionFlags session;
};

int run_trace(const TraceFlags& f) {
  if (f.model_flag.has_value() == !f.model.empty())
    fail(ErrorCode::usage, "rlx trace: expected one of MODEL and -m, found {}", f.model_flag ? "both" : "none");
  if (f.prompt.has_value() == f.file.has_value())
    fail(ErrorCode::usage, "rlx trace: expected one of -p TEXT and -f FILE, found {}", f.prompt ? "both" : "none");
  if (!f.output) fail(ErrorCode::usage, "rlx trace: -o FILE is missing (- is stdout); see `rlx trace --help`");
  const std::string path = f.model_flag ? *f.model_flag : f.model;
  const std::string text = f.prompt ? *f.prompt : read_text(*f.file);
  std::vector<std::string> inputs = f.session.inputs(path);
  if (f.file) inputs.push_back(*f.file);
  if (*f.output != "-") check_result_path(*f.output, inputs);
  TextModel model(path, f.session.options());
  f.session.warn_of_context(model.decoder().info());
  const std::vector<std::int32_t> prompt = model.tokenizer().encode(text);
  if (prompt.empty())
    fail(ErrorCode::usage, "rlx trace: the prompt has no token, and this tokenizer adds none: expected some text");
  SamplerOptions greedy;
  greedy.temperature = 0;
  Sampler sampler(greedy);
  GenerateOptions options;
  options.max_tokens = f.tokens.value_or(8);
  options.cancelled = InterruptScope::interrupted;
  const InterruptScope scope;
  Trace trace;
  model.decoder().set_trace(&trace);
  const GenerateResult result =
      generate(model.decoder(), prompt, 0, sampler, options, [](std::int32_t) {});
  model.decoder().set_trace(nullptr);
  if (result.reason == FinishReason::error) fail(ErrorCode::device, "{}", result.error);
  write_result(*f.output, trace_json(trace, "rlx " + path), inputs);
  say(fmt::format("rlx trace: {} prompt tokens and {} more in {} steps, {} events; open the file in ui.perfetto.dev or "
                  "chrome://tracing",
                  result.prompt_tokens, result.ids.size(), trace.steps().size(), trace.events()));
  return result.reason == FinishReason::cancelled ? kExitInterrupted : 0;
}

Job declare_trace(Arguments& a) {
  const auto f = std::make_shared<TraceFlags>();
  a.positional("MODEL", f->model, "GGUF file, model folder, or a file of `rlx compile`", false);
  a.text("-m,--model", f->model_flag, "The same as MODEL");
  a.text("-p,--prompt", f->prompt, "Text to continue");
  a.text("-f,--file", f->file, "File with the text to continue");
  a.integer("-n,--tokens", f->tokens, {1, 4096}, "Tokens to generate, greedily [8]");
  a.text("-o,--output", f->output, "Write the trace to this file; - is stdout");
  f->session.declare(a);
  return [f] { return run_trace(*f); };
}

}  // namespace

const Command kTrace = {"trace", "A Chrome or Perfetto trace of a run",
                        "  rlx trace model.gguf -p \"Once upon a time\" -n 16 -o trace.json\n",
                        declare_trace};

}  // namespace rlx::cli
