// rlx embed: texts to vectors.
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "cli/command.h"
#include "cli/lines.h"
#include "cli/output.h"
#include "cli/session_flags.h"
#include "runtime/embed.h"

namespace rlx::cli {
namespace {

struct EmbedFlags {
  std::string model;
  std::vector<std::string> texts;
  std::optional<std::string> file, pooling;
  bool lines = false, no_normalize = false;
  SessionFlags session;

  void check() const {
    const int sources = (texts.empty() ? 0 : 1) + (lines ? 1 : 0) + (file ? 1 : 0);
    if (sources != 1)
      fail(ErrorCode::usage, "rlx embed: expected one of TEXT, --lines and -f FILE, found {}",
           sources == 0 ? "none" : "several");
  }
  EmbedOptions options() const {
    const DecoderOptions from = session.options();
    EmbedOptions o;
    o.encoder.device = from.device;
    o.encoder.threads = from.threads;
    o.encoder.compile = from.compile;
    if (pooling) o.pooling = pooling_named(*pooling);
    if (no_normalize) o.normalize = false;
    return o;
  }
};

// The shortest decimals that give the same floats.
std::string json_of(const TextVector& e) { return fmt::format("[{}]", fmt::join(e, ",")); }

int embed(const EmbedFlags& f) {
  f.check();
  const EmbedOptions options = f.options();
  refuse_compiled_file(f.model);
  Embedder embedder(load_model(f.model), options);
  const auto answer = [&](std::span<const std::string> texts) {
    std::vector<std::string> lines;
    for (const TextVector& e : embedder.embed(texts)) lines.push_back(json_of(e));
    return lines;
  };
  if (f.lines) return answer_texts(answer);
  const std::vector<std::string> texts = f.file ? std::vector<std::string>{read_text(*f.file)} : f.texts;
  for (const std::string& line : answer(texts)) out().write(line + "\n");
  return 0;
}

Job declare_embed(Arguments& a) {
  const auto f = std::make_shared<EmbedFlags>();
  a.positional("MODEL", f->model, "Folder of an encoder (config.json, safetensors, tokenizer.json) or GGUF file");
  a.positionals("TEXT", f->texts, "Texts; each becomes a JSON array on a line of its own");
  a.flag("--lines", f->lines, "A JSON string a line on stdin, an array of numbers a line on stdout");
  a.text("-f,--file", f->file, "File whose content is the one text; \"-\" is stdin");
  a.text("--pooling", f->pooling,
         "mean, cls, max or last [modules.json and 1_Pooling/config.json beside the model, or the key pooling_type of "
         "a GGUF file; without them mean]");
  a.flag("--no-normalize", f->no_normalize,
         "Leave the length as it is [1, unless modules.json is there and lists no Normalize]");
  f->session.declare(a, {.context = true, .cache = true});
  return [f] { return embed(*f); };
}

}  // namespace

const Command kEmbed = {"embed", "Texts to vectors, with an encoder",
                        "  rlx embed model-folder \"A cat sits on the window sill.\"\n"
                        "  rlx embed model-folder --lines < texts.jsonl > vectors.jsonl\n"
                        "  rlx embed model-folder -f page.txt --pooling cls --no-normalize\n",
                        declare_embed};

}  // namespace rlx::cli
