// The list of commands, the help that names them, and how the first words choose one.
#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/command.h"
#include "cli/environment.h"
#include "cli/output.h"
#include "cli/version.h"

namespace rlx::cli {
namespace {

constexpr const Command* kAll[] = {&kRun,     &kChat,     &kEmbed,  &kCompile,  &kBenchCompiler, &kBenchKernels,
                                   &kBench,   &kTokenize, &kDetokenize, &kRender, &kTensors, &kDequantize,    &kInspect,
                                   &kOpt,     &kTrace,    &kVerify, &kEvalPpl,  &kEvalKld,       &kTune,
                                   &kDoctor};

std::string overview() {
  std::string text =
      "rlx: runs and compiles machine-learning models.\n\nUsage: rlx COMMAND "
      "[FLAGS]\n\nCommands:\n";
  for (const Command* c : kAll) text += fmt::format("  {:<14} {}\n", c->name, c->summary);
  text +=
      "\nMODEL is a GGUF file, or a folder with config.json, safetensors and tokenizer.json; for run, chat,\n"
      "bench, eval, trace and verify also a file of `rlx compile`. RLX_CACHE=FOLDER keeps what was compiled for the\n"
      "next start.\n"
      "`rlx COMMAND --help` lists flags and examples; `rlx --version` prints the version.\n\n"
      "Environment: RLX_ISA=baseline|avx2|avx512|amx, RLX_THREADS=N, "
      "RLX_AFFINITY=none|cores|LIST,\n"
      "RLX_KERNEL_DISPATCH=common|native, RLX_CACHE=FOLDER, RLX_PRINT=after-each, RLX_DISPATCH_REPORT=1, NO_COLOR.\n"
      "Exit codes: 0 ok, 1 failure, 2 usage, 3 model or file, 4 memory, 5 device, 130 Ctrl+C.\n\n"
      "Examples:\n"
      "  rlx chat model.gguf -p \"Why is the sky blue?\"\n"
      "  rlx run model.gguf -p \"Once upon a time\" -n 64\n"
      "  rlx bench -m model.gguf -p 512 -n 128\n";
  return text;
}

/// The words before the first flag that name the command.
const Command* find(const std::vector<std::string>& words, std::size_t& used) {
  for (const Command* c : kAll) {
    const std::vector<std::string> name = split_list(c->name, ' ');
    if (words.size() < name.size() || !std::equal(name.begin(), name.end(), words.begin()))
      continue;
    used = name.size();
    return c;
  }
  return nullptr;
}

[[noreturn]] void unknown(const std::vector<std::string>& words) {
  std::vector<std::string> names;
  std::string list;
  for (const Command* c : kAll) {
    names.emplace_back(c->name);
    list += (list.empty() ? "" : ", ") + names.back();
  }
  const std::string group = words[0] + " ";
  std::string members;
  for (const std::string& n : names)
    if (n.starts_with(group)) members += (members.empty() ? "" : ", ") + n.substr(group.size());
  if (!members.empty())
    fail(ErrorCode::usage, "rlx {}: expected {}, found {}", words[0], members,
         words.size() > 1 ? "\"" + words[1] + "\"" : "nothing");
  const std::string near = nearest(words[0], names);
  if (near.empty()) fail(ErrorCode::usage, "unknown command \"{}\": expected {}", words[0], list);
  fail(ErrorCode::usage, "unknown command \"{}\", did you mean \"{}\"? See `rlx --help`", words[0],
       near);
}

/// `rlx eval --help`: the help of every member.
bool group_help(const std::vector<std::string>& words) {
  if (words.size() != 2 || (words[1] != "--help" && words[1] != "-h")) return false;
  bool found = false;
  for (const Command* c : kAll)
    if (c->name.starts_with(words[0] + " ")) {
      out().write(fmt::format("rlx {}: {}\n", c->name, c->summary));
      found = true;
    }
  return found;
}

}  // namespace

std::span<const Command* const> all_commands() { return kAll; }

int dispatch(const std::vector<std::string>& all) {
  std::vector<std::string> words = all;
  if (!words.empty() && words[0] == "help") {
    words.erase(words.begin());
    words.push_back("--help");
  }
  if (words.empty())
    fail(ErrorCode::usage,
         "no command: expected one of `rlx --help`, for example `rlx chat MODEL`");
  if (words[0] == "--help" || words[0] == "-h") {
    out().write(overview());
    return 0;
  }
  if (words[0] == "--version") {
    out().write(version_text() + "\n");
    return 0;
  }
  std::size_t used = 0;
  const Command* command = find(words, used);
  if (command == nullptr && group_help(words)) return 0;
  if (command == nullptr) unknown(words);
  Arguments arguments("rlx " + std::string(command->name), std::string(command->summary),
                      std::string(command->examples));
  const Job job = command->declare(arguments);
  if (arguments.parse({words.begin() + static_cast<std::ptrdiff_t>(used), words.end()}) ==
      Arguments::Outcome::help) {
    out().write(arguments.help());
    return 0;
  }
  check_environment();
  return job();
}

}  // namespace rlx::cli
