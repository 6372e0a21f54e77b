#include "models/load.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "flow/weight_sources.h"
#include "models/architecture.h"
#include "models/lora.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxTemplateBytes = 4ull << 20;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

/// The template named "default" of a list [{name, template}], else its first.
std::string template_of_list(const HubConfig& config) {
  std::string first;
  for (const nlohmann::json& item : config.json()["chat_template"]) {
    const auto text = item.is_object() ? item.find("template") : item.end();
    if (!item.is_object() || text == item.end() || !text->is_string())
      fail(ErrorCode::format,
           "{}: chat_template: expected a string or a list of {{name, template}}, found another "
           "value",
           config.file());
    const auto name = item.find("name");
    if (name != item.end() && name->is_string() && name->get<std::string>() == "default")
      return text->get<std::string>();
    if (first.empty()) first = text->get<std::string>();
  }
  return first;
}

std::string folder_template(const fs::path& folder, const fs::path& tokenizer_config) {
  if (is_file(folder / "chat_template.jinja"))
    return read_file(folder / "chat_template.jinja", kMaxTemplateBytes);
  if (tokenizer_config.empty()) return {};
  const HubConfig config = HubConfig::from_file(tokenizer_config);
  if (!config.has("chat_template")) return {};
  return config.json()["chat_template"].is_array() ? template_of_list(config)
                                                   : config.text("chat_template").value_or("");
}

void load_family(const FamilyInput& in, LoadedModel& loaded) {
  in.family.load(in, loaded);
  if (in.form != DecodeForm::state && loaded.model.info.kind != ModelKind::decoder)
    fail(ErrorCode::unsupported, "{}: the {} form is one of decoders, and {} is none", loaded.path.string(),
         name(in.form), loaded.model.info.architecture);
}

LoadedModel load_folder(const fs::path& folder, const BuildOptions& options) {
  const fs::path config_path = folder / "config.json";
  if (!is_file(config_path))
    fail(ErrorCode::io,
         "{}: expected a model folder with config.json and model.safetensors, found no config.json",
         folder.string());
  if (!is_file(folder / "model.safetensors") && !is_file(folder / "model.safetensors.index.json"))
    fail(ErrorCode::io,
         "{}: expected model.safetensors or model.safetensors.index.json, found neither",
         folder.string());
  const HubConfig hub = HubConfig::from_file(config_path);
  const Architecture& family = architecture_of_hub(hub);
  const std::shared_ptr<const WeightSource> weights =
      safetensors_weights(open_safetensors_folder(folder), folder.string());

  LoadedModel loaded;
  loaded.path = folder;
  load_family({family, &hub, nullptr, weights, options.context, options.form}, loaded);
  const fs::path generation_path = folder / "generation_config.json";
  std::optional<HubConfig> generation;
  if (is_file(generation_path)) generation = HubConfig::from_file(generation_path);
  if (const std::int64_t vocab = loaded.model.info.vocab; vocab > 0)  // images have no tokens
    loaded.hints = read_hints(hub, generation ? &*generation : nullptr, vocab);
  if (is_file(folder / "tokenizer.json")) loaded.tokenizer_json = folder / "tokenizer.json";
  if (is_file(folder / "tokenizer_config.json"))
    loaded.tokenizer_config = folder / "tokenizer_config.json";
  loaded.chat_template = folder_template(folder, loaded.tokenizer_config);
  if (!options.lora.empty()) apply_lora(loaded, LoraAdapter::read(options.lora));
  return loaded;
}

void require_gguf(const fs::path& path) {
  const MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  std::string magic;
  for (std::size_t i = 0; i < std::min<std::size_t>(bytes.size(), 4); ++i)
    magic += fmt::format("{:02x} ", std::to_integer<int>(bytes[i]));
  if (magic == "47 47 55 46 ") return;
  if (!magic.empty()) magic.pop_back();
  const std::string_view advice =
      path.extension() == ".safetensors" ? "; a safetensors checkpoint is given as its folder" : "";
  fail(ErrorCode::format,
       "{}: expected a GGUF file (first bytes 47 47 55 46) or a model folder, found a file that "
       "starts with {}{}",
       path.string(), magic, advice);
}

}  // namespace

void require_decoder(const LoadedModel& loaded) {
  const ModelInfo& info = loaded.model.info;
  std::string_view what;
  switch (info.kind) {
    case ModelKind::decoder:
      if (info.form == DecodeForm::state) return;
      fail(ErrorCode::unsupported,
           "{}: {} was built in its {} form (BuildOptions::form), which runs through ModelCompilePipeline; expected "
           "the state form",
           loaded.path.string(), info.architecture, name(info.form));
    case ModelKind::encoder:
      what = "an encoder of token sequences: it gives hidden rows (`rlx embed`), no next token";
      break;
    case ModelKind::vision: what = "an encoder of images: it takes pixels and gives hidden rows, no next token"; break;
    case ModelKind::seq2seq: what = "an encoder with a decoder: it turns one sequence into another"; break;
  }
  fail(ErrorCode::unsupported,
       "{}: {} is {}; expected a decoder that continues a text (rlx::EncoderModel runs it from C++; `rlx inspect` and "
       "`rlx verify` take it)",
       loaded.path.string(), info.architecture, what);
}

LoadedModel load_model(std::shared_ptr<const GgufFile> file, bool in_memory,
                       const BuildOptions& options) {
  const Architecture& family = architecture_of_gguf(*file);
  const std::shared_ptr<const WeightSource> weights =
      gguf_weights(file, in_memory ? Storage::memory : Storage::mapped);
  LoadedModel loaded;
  loaded.path = file->path();
  load_family({family, nullptr, file.get(), weights, options.context, options.form}, loaded);
  loaded.hints = read_hints(*file, loaded.model.info.vocab);
  loaded.chat_template = std::string(file->get_string("tokenizer.chat_template").value_or(""));
  if (!options.lora.empty()) apply_lora(loaded, LoraAdapter::read(options.lora));
  loaded.gguf = std::move(file);
  return loaded;
}

LoadedModel load_model(const fs::path& path, const BuildOptions& options) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status))
    fail(ErrorCode::io, "{}: expected a GGUF file or a model folder, found nothing{}",
         path.string(),
         error && error != std::errc::no_such_file_or_directory ? ": " + error.message() : "");
  if (fs::is_directory(status)) return load_folder(path, options);
  require_gguf(path);
  return load_model(std::make_shared<const GgufFile>(path), false, options);
}

}  // namespace rlx
