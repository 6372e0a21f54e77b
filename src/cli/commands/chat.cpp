// rlx chat: one turn with -p, else a conversation.
#include <unistd.h>

#include <iostream>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/process_memory.h"
#include "cli/session_flags.h"
#include "runtime/chat_session.h"
#include "runtime/text_model.h"

namespace rlx::cli {
namespace {

struct ChatFlags {
  std::string model;
  std::optional<std::string> model_flag, prompt, system, lora;
  bool stats = false;
  SessionFlags session;
  SamplingFlags sampling;
};

/// The lines of a conversation: commands with a slash, everything else is said to the model.
class Conversation {
 public:
  Conversation(TextModel& model, ChatSession& session, bool stats)
      : model_(model), session_(session), stats_(stats) {}

  int run() {
    terminal_ = isatty(STDIN_FILENO) != 0;
    if (terminal_) say("Type a message, /help for the commands, Ctrl+D to quit.");
    for (std::string line; prompt(), std::getline(std::cin, line);) {
      if (line == "/bye") return 0;
      if (line.starts_with("/"))
        command(line);
      else if (!line.empty())
        try_answer(line);
    }
    if (terminal_) say("");
    return 0;
  }

  /// False when the answer failed.
  bool answer(const std::string& text) {
    const InterruptScope scope;
    last_ = session_.ask(text, [](std::string_view piece) {
      out().write(piece);
      out().flush();
    });
    out().write("\n");
    out().flush();
    if (last_.reason == FinishReason::error) say("rlx: " + one_line(last_.error));
    if (stats_) say(speed_text(model_, last_));
    return last_.reason != FinishReason::error;
  }
  bool cancelled() const { return last_.reason == FinishReason::cancelled; }

 private:
  // A turn that cannot be made (too long, refused by the template) does not end the conversation.
  void try_answer(const std::string& line) {
    try {
      answer(line);
    } catch (const Error& e) {
      say("rlx: " + one_line(e.what()));
    }
  }

  void prompt() {
    if (!terminal_) return;
    std::fputs("> ", stderr);
    std::fflush(stderr);
  }

  void command(const std::string& line) {
    constexpr std::string_view set_system = "/set system";
    if (line == "/help") {
      say("/set system TEXT  sets the system message (no TEXT: none)\n/clear            forgets "
          "the conversation\n"
          "/stats            speeds and memory of the last answer\n/bye              quits, as "
          "Ctrl+D does\nCtrl+C            stops an answer");
    } else if (line == "/clear") {
      session_.clear();
    } else if (line == "/stats") {
      say(speed_text(model_, last_));
    } else if (line == set_system || line.starts_with(std::string(set_system) + " ")) {
      session_.set_system(line.size() > set_system.size() ? line.substr(set_system.size() + 1)
                                                          : "");
    } else {
      static const std::string known[] = {"/help", "/clear", "/stats", "/set", "/bye"};
      const std::string near = nearest(line.substr(0, line.find(' ')), known);
      say(fmt::format("unknown command {}{}", one_line(line),
                      near.empty() ? "; /help lists them" : ", did you mean " + near + "?"));
    }
  }

  TextModel& model_;
  ChatSession& session_;
  bool stats_, terminal_ = false;
  GenerateResult last_;
};

int run_chat(const ChatFlags& f) {
  if (f.model_flag && !f.model.empty())
    fail(ErrorCode::usage, "rlx chat: the model is given twice: \"{}\" and -m \"{}\"", f.model,
         *f.model_flag);
  if (!f.model_flag && f.model.empty())
    fail(ErrorCode::usage, "rlx chat: MODEL is missing; see `rlx chat --help`");
  DecoderOptions decoder_options = f.session.options();
  decoder_options.lora = f.lora.value_or("");
  TextModel model(f.model_flag ? *f.model_flag : f.model, decoder_options);
  f.session.warn_of_context(model.decoder().info());
  model.chat();  // a model without a template fails before anything is typed
  std::string origin;
  const SamplerOptions sampling =
      resolve_sampling(f.sampling.wishes, model.decoder().model().hints, &origin);
  say("sampling: " + origin);
  GenerateOptions options;
  options.max_tokens = f.sampling.tokens.value_or(-1);
  options.cancelled = InterruptScope::interrupted;
  ChatSession session(model, sampling, options);
  if (f.system) session.set_system(*f.system);
  Conversation conversation(model, session, f.stats);
  if (!f.prompt) return conversation.run();
  if (!conversation.answer(*f.prompt)) return 1;
  return conversation.cancelled() ? kExitInterrupted : 0;
}

Job declare_chat(Arguments& a) {
  const auto f = std::make_shared<ChatFlags>();
  a.positional("MODEL", f->model, "GGUF file, model folder, or a file of `rlx compile`", false);
  a.text("-m,--model", f->model_flag, "The same as MODEL");
  a.text("-p,--prompt", f->prompt,
         "Ask this, print the answer and exit; without it a conversation begins");
  a.text("--system", f->system, "System message");
  f->sampling.declare(a);
  a.flag("--stats", f->stats, "Print load time, speeds and memory on stderr after each answer");
  a.text("--lora", f->lora, "Adapter of `rlx tune`, or of the PEFT library: a safetensors file or its folder");
  f->session.declare(a);
  return [f] { return run_chat(*f); };
}

}  // namespace

const Command kChat = {
    "chat", "Talk with a model through its chat template",
    "  rlx chat model.gguf -p \"Why is the sky blue?\"\n"
    "  rlx chat model.gguf                       (a conversation; /help lists its commands)\n"
    "  rlx chat model.gguf --system \"Answer in one sentence.\" --temp 0 --stats\n",
    declare_chat};

}  // namespace rlx::cli
