// What a command of `rlx` is. Each has a file in commands/; commands.cpp lists them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"

namespace rlx::cli {

/// Does the work after the flags were read; the result is the exit code. Errors end the program
/// with the code of their kind.
using Job = std::function<int()>;

struct Command {
  std::string_view name;  ///< "run"; two words for a command of a group: "eval ppl"
  std::string_view summary;
  std::string_view examples;  ///< lines of the help
  Job (*declare)(Arguments&);
};

extern const Command kRun, kChat, kCompile, kBench, kTokenize, kDetokenize, kRender, kTensors, kDequantize,
    kInspect, kOpt, kTrace, kVerify, kEvalPpl, kEvalKld, kTune, kBenchCompiler, kBenchKernels, kDoctor, kEmbed;

std::span<const Command* const> all_commands();

/// Runs a command line (without the program's name). Throws rlx::Error and what the library throws.
int dispatch(const std::vector<std::string>& words);

}  // namespace rlx::cli
