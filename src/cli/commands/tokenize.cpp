// rlx tokenize, rlx detokenize.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/command.h"
#include "cli/lines.h"
#include "cli/output.h"
#include "runtime/text_model.h"

namespace rlx::cli {
namespace {

using nlohmann::ordered_json;

/// Where the tokenizer comes from.
struct TokenizeSource {
  std::optional<std::string> tokenizer, model;

  void declare(Arguments& a) {
    a.text("--tokenizer", tokenizer, "tokenizer.json");
    a.text("-m,--model", model, "GGUF file (a vocabulary alone, too) or model folder");
  }
  std::string path(std::string_view command) const {
    if (tokenizer.has_value() == model.has_value())
      fail(ErrorCode::usage, "{}: expected one of --tokenizer FILE and --model MODEL, found {}",
           command, model ? "both" : "none");
    return model ? *model : *tokenizer;
  }
};

struct TokenizeFlags {
  TokenizeSource source;
  std::optional<std::string> text;
  bool lines = false, no_special = false;
};

int tokenize(const TokenizeFlags& f) {
  const std::string path = f.source.path("rlx tokenize");
  if (f.text.has_value() == f.lines)
    fail(ErrorCode::usage, "rlx tokenize: expected one of --text TEXT and --lines, found {}",
         f.lines ? "both" : "none");
  const Tokenizer tokenizer = load_tokenizer(path);
  // The two formats' own libraries differ: without special tokens, a special token that a text
  // spells out is plain text for a GGUF vocabulary and still itself for a tokenizer.json.
  const Tokenizer::EncodeOptions options{!f.no_special, !f.no_special || !is_gguf(path)};
  const auto encode = [&](const ordered_json& text) -> ordered_json {
    if (!text.is_string())
      fail(ErrorCode::invalid_argument, "expected a string, found {}", text.type_name());
    return tokenizer.encode(text.get_ref<const std::string&>(), options);
  };
  if (f.lines) return answer_lines(encode);
  write_json(tokenizer.encode(*f.text, options));
  return 0;
}

struct DetokenizeFlags {
  TokenizeSource source;
  std::optional<std::string> ids;
  bool lines = false, skip_special = false;
};

std::vector<std::int32_t> ids_of(const ordered_json& json) {
  if (!json.is_array())
    fail(ErrorCode::invalid_argument, "expected an array of ids, found {}", json.type_name());
  std::vector<std::int32_t> ids;
  for (const ordered_json& id : json) {
    if (!id.is_number_integer())
      fail(ErrorCode::invalid_argument, "expected an array of ids, found {} in it", id.type_name());
    const bool fits = id.is_number_unsigned() ? id.get<std::uint64_t>() <= INT32_MAX
                                              : id.get<std::int64_t>() >= 0;
    if (!fits) fail(ErrorCode::invalid_argument, "id {}: expected 0 to {}", id.dump(), INT32_MAX);
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

int detokenize(const DetokenizeFlags& f) {
  const std::string path = f.source.path("rlx detokenize");
  if (f.ids.has_value() == f.lines)
    fail(ErrorCode::usage, "rlx detokenize: expected one of --ids LIST and --lines, found {}",
         f.lines ? "both" : "none");
  const Tokenizer tokenizer = load_tokenizer(path);
  if (f.lines)
    return answer_lines([&](const ordered_json& json) -> ordered_json {
      return tokenizer.decode(ids_of(json), f.skip_special);
    });
  std::vector<std::int32_t> ids;
  for (const std::string& part : split_list(*f.ids))
    ids.push_back(static_cast<std::int32_t>(parse_integer("--ids", part, {0, INT32_MAX})));
  out().write(tokenizer.decode(ids, f.skip_special) + "\n");
  return 0;
}

Job declare_tokenize(Arguments& a) {
  const auto f = std::make_shared<TokenizeFlags>();
  f->source.declare(a);
  a.text("--text", f->text, "Text to tokenize; the ids are printed as a JSON array");
  a.flag("--lines", f->lines, "A JSON string a line on stdin, an array of ids a line on stdout");
  a.flag("--no-special", f->no_special, "Add no special tokens (begin, end of text)");
  return [f] { return tokenize(*f); };
}

Job declare_detokenize(Arguments& a) {
  const auto f = std::make_shared<DetokenizeFlags>();
  f->source.declare(a);
  a.text("--ids", f->ids, "Ids with commas between them");
  a.flag("--lines", f->lines, "An array of ids a line on stdin, a JSON string a line on stdout");
  a.flag("--skip-special", f->skip_special, "Leave special tokens out");
  return [f] { return detokenize(*f); };
}

}  // namespace

const Command kTokenize = {
    "tokenize", "Text to token ids",
    "  rlx tokenize --model model.gguf --text \"Hello world\"\n"
    "  echo '\"Hello\"' | rlx tokenize --tokenizer tokenizer.json --lines --no-special\n",
    declare_tokenize};
const Command kDetokenize = {
    "detokenize", "Token ids to text",
    "  rlx detokenize --model model.gguf --ids 19556,905\n"
    "  echo '[19556, 905]' | rlx detokenize --tokenizer tokenizer.json --lines\n",
    declare_detokenize};

}  // namespace rlx::cli
