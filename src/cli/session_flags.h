// Flags that every command with a model takes (kernels.md, 2.8), and the sampling flags of run and
// chat.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/arguments.h"
#include "runtime/decoder.h"
#include "runtime/generate.h"

namespace rlx::cli {

struct SessionFlags {
  std::optional<std::string> activations, kv, device, profile, aot_cache, affinity;
  std::optional<std::int64_t> threads, context;
  bool fast = false, cached = true;

  /// Flags that a command does not have: one with a fixed context, one that reads no compiled programs.
  struct Without {
    bool context = false, cache = false;
  };
  /// Declares --activations, --kv, --profile, --fast, -t/--threads, --affinity, --device, --aot-cache and -c/--context,
  /// but for `without`.
  void declare(Arguments& arguments, Without without = {false, false});
  void declare_cache(Arguments& arguments);
  void declare_affinity(Arguments& arguments);
  /// Sets what --affinity says for the whole process. With the cache of compiled programs that was asked for, which
  /// checks contents by `verify_content` (AotOptions). Errors: usage (an unknown value); io, format, invalid_argument
  /// (a profile that is not one).
  DecoderOptions options(bool verify_content = false) const;
  /// The model, and the files that these flags name: what results must not replace.
  std::vector<std::string> inputs(const std::string& model) const;
  /// Says on stderr when -c asks for more than the model was trained for.
  void warn_of_context(const ModelInfo& info) const;
};

struct SamplingFlags {
  SamplingWishes wishes;
  std::optional<std::int64_t> tokens;
  void declare(Arguments& arguments);
};

constexpr IntegerRange kThreadRange{1, 1024}, kContextRange{1, 1 << 24};

}  // namespace rlx::cli
