// rlx compile: a model's program and packed weights in one file.
#include "base/error.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/lines.h"
#include "cli/output.h"
#include "cli/session_flags.h"
#include "runtime/artefact.h"

namespace rlx::cli {
namespace {

struct CompileFlags {
  std::string model;
  std::optional<std::string> output;
  SessionFlags session;
};

int run_compile(const CompileFlags& f) {
  if (!f.output) fail(ErrorCode::usage, "rlx compile: -o FILE is missing; see `rlx compile --help`");
  check_result_file(*f.output, f.session.inputs(f.model));
  refuse_compiled_file(f.model);
  const InterruptScope scope;
  const ArtefactInfo info =
      write_artefact(f.model, *f.output, f.session.options(), [] { return InterruptScope::interrupted(); });
  if (info.file_bytes == 0) {
    say("interrupted: nothing was written");
    return kExitInterrupted;
  }
  say(fmt::format("{}: {} calls, {} packed tensors of {:.1f} MiB, {:.1f} MiB in all", *f.output, info.calls,
                  info.packed_tensors, static_cast<double>(info.packed_bytes) / (1 << 20),
                  static_cast<double>(info.file_bytes) / (1 << 20)));
  return 0;
}

Job declare_compile(Arguments& a) {
  const auto f = std::make_shared<CompileFlags>();
  a.positional("MODEL", f->model, "GGUF file or model folder");
  a.text(
      "-o,--output", f->output,
      "File to write; it stands for MODEL in run, chat, trace, bench, eval and verify, and reads tokenizer and "
      "template from MODEL, which stays where it is or is moved with FILE on one file system");
  f->session.declare(a, {.cache = true});
  return [f] { return run_compile(*f); };
}

}  // namespace

const Command kCompile = {"compile", "Compile a model and pack its weights into one file",
                          "  rlx compile model.gguf -o model.rlx\n"
                          "  rlx run model.rlx -p \"Once upon a time\" -n 64\n"
                          "  rlx compile model.gguf --activations f32 -o exact.rlx\n",
                          declare_compile};

}  // namespace rlx::cli
