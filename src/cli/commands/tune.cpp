// rlx tune: low-rank fine-tuning on a text.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/lines.h"
#include "cli/output.h"
#include "cli/session_flags.h"
#include "runtime/lora_tune.h"
#include "runtime/text_model.h"

namespace rlx::cli {
namespace {

using nlohmann::ordered_json;

struct TuneFlags {
  std::string model;
  std::optional<std::string> file, output, products, device;
  std::optional<std::int64_t> steps, tokens, rank, seed, threads;
  std::optional<double> rate, alpha;
  bool json = false;
};

std::vector<std::string> split_products(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == ',')
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

LoraTuneOptions tune_options(const TuneFlags& f) {
  LoraTuneOptions o;
  o.steps = f.steps.value_or(o.steps);
  o.tokens = f.tokens.value_or(o.tokens);
  o.rank = f.rank.value_or(o.rank);
  o.alpha = static_cast<float>(f.alpha.value_or(double{o.alpha}));
  o.learning_rate = static_cast<float>(f.rate.value_or(double{o.learning_rate}));
  o.seed = static_cast<std::uint64_t>(f.seed.value_or(1));
  if (f.products) o.products = split_products(*f.products);
  if (f.device) o.device = Device::parse(*f.device);
  o.threads = static_cast<int>(f.threads.value_or(0));
  o.compile.dispatch = KernelDispatchConfig::from_environment();
  o.cancelled = InterruptScope::interrupted;
  if (!f.json)
    o.progress = [](std::int64_t step, double loss) { say(fmt::format("step {}: loss {:.4f}", step, loss)); };
  return o;
}

// What is wrong with an argument of tune_lora came from a flag.
LoraTuneResult tuned(const LoadedModel& model, std::span<const std::int32_t> tokens, const LoraTuneOptions& options) {
  try {
    return tune_lora(model, tokens, options);
  } catch (const Error& e) {
    fail(e.code() == ErrorCode::invalid_argument ? ErrorCode::usage : e.code(), "{}", e.what());
  }
}

int run_tune(const TuneFlags& f) {
  if (!f.file || !f.output)
    fail(ErrorCode::usage, "rlx tune: expected -f TEXT and -o ADAPTER; see `rlx tune --help`");
  const std::string text = read_text(*f.file);
  const std::string inputs[] = {f.model, *f.file};
  check_result_file(*f.output, inputs);
  refuse_compiled_file(f.model);
  const LoadedModel model = load_model(f.model);
  const std::vector<std::int32_t> tokens = load_tokenizer(f.model).encode(text);
  const InterruptScope scope;
  const LoraTuneResult r = tuned(model, tokens, tune_options(f));
  if (InterruptScope::interrupted()) {
    say("interrupted: no adapter was written");
    return kExitInterrupted;
  }
  r.adapter.write(*f.output);
  const double change = 100 * (r.loss_after / r.loss_before - 1);
  if (f.json)
    write_json(ordered_json{{"loss_before", r.loss_before},
                            {"loss_after", r.loss_after},
                            {"losses", r.losses},
                            {"adapter", *f.output}});
  else
    out().write(fmt::format("loss {:.4f} -> {:.4f} ({:+.1f} %), adapter of {} products in {}\n", r.loss_before,
                            r.loss_after, change, r.adapter.factors.size(), *f.output));
  return 0;
}

Job declare_tune(Arguments& a) {
  const auto f = std::make_shared<TuneFlags>();
  a.positional("MODEL", f->model, "GGUF file or model folder");
  a.text("-f,--file", f->file, "Text to learn");
  a.text("-o,--output", f->output, "Adapter to write: safetensors with the names of the PEFT library");
  a.integer("--steps", f->steps, {1, 1 << 24}, "Steps of AdamW [20]");
  a.integer("--tokens", f->tokens, {1, 1 << 16}, "Tokens of a step [64]");
  a.integer("--rank", f->rank, {1, 4096}, "Rank of the adapter's factors [8]");
  a.number("--alpha", f->alpha, {1e-6, 1e6}, "The factors' product is scaled by alpha / rank [16]");
  a.number("--lr", f->rate, {1e-9, 10}, "Learning rate [0.002]");
  a.text("--products", f->products, "Which products get factors [q,k,v,o,gate,up,down]");
  a.integer("-s,--seed", f->seed, {0, INT64_MAX}, "Seed of the first factors [1]");
  a.integer("-t,--threads", f->threads, kThreadRange, "Threads [RLX_THREADS, else the physical cores]");
  a.text("--device", f->device, "cpu or reference [cpu]");
  a.flag("--json", f->json, "JSON instead of words");
  return [f] { return run_tune(*f); };
}

}  // namespace

const Command kTune = {"tune", "Fine-tune a model on a text with a LoRA adapter",
                       "  rlx tune model.gguf -f notes.txt -o notes.safetensors\n"
                       "  rlx tune model.gguf -f notes.txt -o notes.safetensors --steps 100 --rank 16 --products q,v\n"
                       "  rlx run model.gguf --lora notes.safetensors -p \"The notes say\"\n",
                       declare_tune};

}  // namespace rlx::cli
