// rlx eval ppl, rlx eval kld.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/lines.h"
#include "cli/output.h"
#include "cli/session_flags.h"
#include "runtime/evaluate.h"
#include "runtime/text_model.h"

namespace rlx::cli {
namespace {

using nlohmann::ordered_json;

struct EvalFlags {
  std::optional<std::string> model, base, file, lora;
  std::optional<std::int64_t> chunk;
  bool json = false;
  SessionFlags session;

  void declare(Arguments& a) {
    a.text("-m,--model", model, "GGUF file or model folder");
    a.text("-f,--file", file, "Text to predict");
    a.integer("-c,--context", chunk, {3, kContextRange.most}, "Tokens of a chunk; the text needs two [512]");
    a.flag("--json", json, "JSON instead of words");
    a.text("--lora", lora, "Adapter beside the model: a safetensors file or its folder");
    session.declare(a, {.context = true});
  }
  DecoderOptions options() const {
    DecoderOptions o = session.options();
    o.lora = lora.value_or("");
    o.context = size();
    return o;
  }
  std::int64_t size() const { return chunk.value_or(512); }
  void require(std::string_view command) const {
    if (!model || !file)
      fail(ErrorCode::usage, "{}: expected -m MODEL and -f FILE; see `{} --help`", command,
           command);
  }
};

EvalOptions eval_options(const EvalFlags& f, const Tokenizer& tokenizer, std::string_view what) {
  EvalOptions o;
  o.chunk = f.size();
  if (tokenizer.adds_bos() && tokenizer.bos()) o.bos = *tokenizer.bos();
  o.cancelled = InterruptScope::interrupted;
  if (isatty(STDERR_FILENO) != 0)
    o.progress = [what](std::int64_t done, std::int64_t count, double mean) {
      std::fputs(fmt::format("\rchunk {} of {}: {} {:.5f}{}", done, count, what, mean,
                             done == count ? "\n" : "")
                     .c_str(),
                 stderr);
    };
  return o;
}

int ppl(const EvalFlags& f) {
  f.require("rlx eval ppl");
  const std::string text = read_text(*f.file);
  TextModel model(*f.model, f.options());
  const InterruptScope scope;
  const Perplexity p = perplexity(model.decoder(), model.tokenizer().encode(text),
                                  eval_options(f, model.tokenizer(), "perplexity"));
  if (InterruptScope::interrupted()) return kExitInterrupted;
  if (f.json)
    write_json({{"ppl", p.ppl}, {"stderr", p.stderr_}, {"tokens", p.tokens}});
  else
    out().write(
        fmt::format("perplexity {:.4f} +/- {:.4f} over {} tokens\n", p.ppl, p.stderr_, p.tokens));
  return 0;
}

int kld(const EvalFlags& f) {
  f.require("rlx eval kld");
  if (!f.base)
    fail(ErrorCode::usage, "rlx eval kld: --base MODEL is missing; see `rlx eval kld --help`");
  const std::string text = read_text(*f.file);
  TextModel model(*f.model, f.options());
  DecoderOptions exact = f.options();
  exact.compile.precision = Precision{Activations::f32, std::nullopt};
  BuildOptions build;
  build.context = exact.context;
  Decoder base(load_model(*f.base, build), exact);
  const InterruptScope scope;
  const Distance d = distance(model.decoder(), base, model.tokenizer().encode(text),
                              eval_options(f, model.tokenizer(), "mean KL"));
  if (InterruptScope::interrupted()) return kExitInterrupted;
  if (f.json)
    write_json(
        {{"mean_kl", d.mean_kl}, {"max_kl", d.max_kl}, {"top1", d.top1}, {"tokens", d.tokens}});
  else
    out().write(
        fmt::format("KL divergence: mean {:.6f}, largest {:.6f}; same best token {:.2f} % of {}\n",
                    d.mean_kl, d.max_kl, 100 * d.top1, d.tokens));
  return 0;
}

Job declare_ppl(Arguments& a) {
  const auto f = std::make_shared<EvalFlags>();
  f->declare(a);
  return [f] { return ppl(*f); };
}

Job declare_kld(Arguments& a) {
  const auto f = std::make_shared<EvalFlags>();
  f->declare(a);
  a.text("--base", f->base, "Model to compare with, run with float32 activations");
  return [f] { return kld(*f); };
}

}  // namespace

const Command kEvalPpl = {"eval ppl", "Perplexity of a text, as llama-perplexity counts it",
                          "  rlx eval ppl -m model.gguf -f text.txt -c 512 --json\n", declare_ppl};
const Command kEvalKld = {
    "eval kld", "Distance of a model's predictions from another's",
    "  rlx eval kld -m model-q4.gguf --base model-f16.gguf -f text.txt --json\n", declare_kld};

}  // namespace rlx::cli
