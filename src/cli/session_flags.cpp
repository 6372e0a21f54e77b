#include "cli/session_flags.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "base/affinity.h"
#include "base/error.h"
#include "cli/lines.h"
#include "cli/output.h"
#include "compiler/profile.h"

namespace rlx::cli {

namespace {

// A name with a dot or a slash is a file; presets have neither.
bool is_profile_file(const std::string& text) { return text.find_first_of("./") != std::string::npos; }

CompileProfile read_profile(const std::string& text) {
  if (!is_profile_file(text)) {
    const std::span<const std::string> names = profiles::names();
    if (std::find(names.begin(), names.end(), text) == names.end())
      fail(ErrorCode::usage, "--profile: expected a TOML file or one of {}, found \"{}\"", fmt::join(names, ", "),
           text);
    return profiles::named(text);
  }
  return parse_profile_toml(read_text(text), text);
}

}  // namespace

void SessionFlags::declare(Arguments& a, Without without) {
  a.text("--activations", activations,
         "Precision of activations in products: auto, int8, bf16 or f32 [auto]");
  a.text("--kv", kv, "Type of the KV cache: f32, f16, bf16 or q8 [by processor]");
  a.text("--profile", profile,
         "How to compile: a preset (llama_decode, ...) or a TOML file; what other flags fix wins");
  a.flag("--fast", fast,
         "Allow kernels whose sums differ in the last bits (AMX); changes nothing on processors "
         "without AMX");
  a.integer("-t,--threads", threads, kThreadRange,
            "Threads [RLX_THREADS, else the physical cores]");
  declare_affinity(a);
  a.text("--device", device, "cpu or reference [cpu]");
  cached = !without.cache;
  if (cached) declare_cache(a);
  if (!without.context)
    a.integer("-c,--context", context, kContextRange, "Tokens of the context [the model's own]");
}

void SessionFlags::declare_affinity(Arguments& a) {
  a.text("--affinity", affinity,
         "Processors of the threads, one each, as 0-3,8; \"cores\": one of each core; \"none\": the system places "
         "threads [RLX_AFFINITY, else none]");
}

void SessionFlags::declare_cache(Arguments& a) {
  a.text("--aot-cache", aot_cache,
         "Folder that keeps compiled programs and packed weights for the next start; \"default\": "
         "~/.cache/rlx; \"none\" [RLX_CACHE, else none]");
}

DecoderOptions SessionFlags::options(bool verify_content) const {
  DecoderOptions o;
  if (device) o.device = Device::parse(*device);
  if (affinity) set_affinity(parse_affinity("--affinity", *affinity));
  o.threads = static_cast<int>(threads.value_or(0));
  o.context = context.value_or(0);
  if (activations) o.compile.precision.activations = parse_activations(*activations);
  if (kv) o.compile.precision.kv = parse_kv(*kv);
  o.compile.dispatch = KernelDispatchConfig::from_environment();
  o.compile.dispatch.fast = fast;
  if (profile) o.compile = apply(read_profile(*profile), o.compile);
  const char* variable = std::getenv("RLX_CACHE");
  const std::string folder = aot_cache ? *aot_cache : variable != nullptr ? variable : "";
  if (cached && !folder.empty() && folder != "none") {
    AotOptions cache;
    cache.folder = folder == "default" ? AotCache::default_folder() : std::filesystem::path(folder);
    cache.verify_content = verify_content;
    cache.warn = [](const std::string& text) { say("rlx: warning: " + one_line(text)); };
    o.aot = AotCache::open_or_warn(std::move(cache));
  }
  return o;
}

std::vector<std::string> SessionFlags::inputs(const std::string& model) const {
  std::vector<std::string> list = {model};
  if (profile && is_profile_file(*profile)) list.push_back(*profile);
  return list;
}

void SessionFlags::warn_of_context(const ModelInfo& info) const {
  if (context.value_or(0) > info.context)
    say(fmt::format(
        "rlx: warning: -c {} is above the {} tokens that the model was trained for; its text beyond them is poor",
        *context, info.context));
}

void SamplingFlags::declare(Arguments& a) {
  a.integer("-n,--tokens", tokens, {-1, 1 << 24},
            "Tokens to generate at most; -1: until the end of the text or the context [-1]");
  a.number("--temp", wishes.temperature, {0, 100},
           "Temperature; 0: always the most likely token [the model's, else 0.8]");
  a.integer("--top-k", wishes.top_k, {0, INT32_MAX},
            "Keep the K most likely tokens; 0: all [the model's, else 40]");
  a.number("--top-p", wishes.top_p, {0, 1},
           "Keep the tokens that make up this probability [the model's, else 0.95]");
  a.number("--min-p", wishes.min_p, {0, 1},
           "Drop tokens below this share of the best one [the model's, else 0.05]");
  a.number("--repeat-penalty", wishes.repeat_penalty, {0.001, 100},
           "Penalty of tokens seen before [the model's, else 1: off]");
  a.number("--presence-penalty", wishes.presence_penalty, {-2, 2},
           "Subtracted once from tokens seen before [0]");
  a.number("--frequency-penalty", wishes.frequency_penalty, {-2, 2},
           "Subtracted for each time a token was seen [0]");
  a.integer("-s,--seed", wishes.seed, {-1, INT64_MAX},
            "Seed of the random numbers; -1: another one each time [-1]");
}

}  // namespace rlx::cli
