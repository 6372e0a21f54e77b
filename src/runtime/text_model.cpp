#include "runtime/text_model.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>

#include "base/error.h"
#include "runtime/artefact.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

LoadedModel load(const fs::path& path, DecoderOptions& options) {
  BuildOptions build;
  build.context = options.context;
  build.lora = options.lora;
  LoadedModel loaded = load_model(resolve_artefact(path, options), build);
  require_decoder(loaded);  // before a tokenizer is looked for
  return loaded;
}

std::string token_text(const Tokenizer& t, std::optional<std::int32_t> id) {
  return id ? t.token_bytes(*id) : std::string();
}

// Template text may hold special tokens, what users wrote may not.
std::vector<Tokenizer::Piece> pieces_of(const RenderResult& render) {
  const std::string_view text = render.text;
  std::vector<Tokenizer::Piece> pieces;
  std::size_t at = 0;
  const auto add = [&](std::size_t end, bool trusted) {
    if (end > at) pieces.push_back({text.substr(at, end - at), trusted});
    at = std::max(at, end);
  };
  for (const TextSpan& span : render.user) {
    add(span.begin, true);
    add(span.end, false);
  }
  add(text.size(), true);
  return pieces;
}

}  // namespace

bool is_gguf(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  char magic[4] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  return std::memcmp(magic, "GGUF", 4) == 0;
}

Tokenizer load_tokenizer(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    if (!fs::is_regular_file(path / "tokenizer.json", ignored))
      fail(ErrorCode::io, "{}: expected a folder with tokenizer.json, found none in it",
           path.string());
    return Tokenizer::from_json_file(path / "tokenizer.json");
  }
  if (is_gguf(path) || path.extension() == ".gguf") return Tokenizer::from_gguf(GgufFile(path));
  return Tokenizer::from_json_file(path);
}

Tokenizer tokenizer_of(const LoadedModel& model) {
  if (model.gguf) return Tokenizer::from_gguf(*model.gguf);
  if (model.tokenizer_json.empty())
    fail(ErrorCode::io, "{}: expected tokenizer.json beside config.json, found none",
         model.path.string());
  return Tokenizer::from_json_file(model.tokenizer_json);
}

// Members are made in order: the clock starts before the file is read.
TextModel::TextModel(const fs::path& path, const DecoderOptions& options) : TextModel(start_of(path, options)) {}

TextModel::Start TextModel::start_of(const fs::path& path, DecoderOptions options) {
  const std::int64_t ns = now_ns();
  LoadedModel model = load(path, options);
  return {ns, std::move(model), std::move(options)};
}

TextModel::TextModel(Start start)
    : tokenizer_(tokenizer_of(start.model)) {
  LoadedModel& model = start.model;
  for (const std::int32_t id : model.hints.eos) ends_.push_back(id);
  for (const std::optional<std::int32_t> id : {tokenizer_.eos(), tokenizer_.eot()})
    if (id && std::find(ends_.begin(), ends_.end(), *id) == ends_.end()) ends_.push_back(*id);
  if (!model.chat_template.empty())
    chat_.emplace(model.chat_template, token_text(tokenizer_, tokenizer_.bos()),
                  token_text(tokenizer_, tokenizer_.eos()), model.path.string() + ": chat_template");
  decoder_ = std::make_unique<Decoder>(std::move(model), start.options);
  load_ms_ = static_cast<double>(now_ns() - start.ns) / 1e6;
}

const ChatTemplate& TextModel::chat() const {
  if (!chat_)
    fail(ErrorCode::unsupported,
         "{}: the model has no chat template: `rlx run` completes plain text",
         decoder_->model().path.string());
  return *chat_;
}

std::vector<std::int32_t> TextModel::chat_prompt(const Json& messages, const Json& tools,
                                                 const Json& arguments) const {
  const RenderResult render = chat().render(messages, tools, arguments);
  const std::vector<Tokenizer::Piece> pieces = pieces_of(render);
  std::vector<std::int32_t> ids = tokenizer_.encode_pieces(pieces, false);
  const std::optional<std::int32_t> bos = tokenizer_.bos();
  if (bos && tokenizer_.adds_bos() && (ids.empty() || ids.front() != *bos))
    ids.insert(ids.begin(), *bos);
  return ids;
}

}  // namespace rlx
