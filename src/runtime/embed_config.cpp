#include "runtime/embed_config.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "models/hub_config.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

struct PoolingName {
  Pooling pooling;
  std::string_view key;   // of a flag in a Pooling module's config
  std::string_view name;  // as its newer "pooling_mode" says
};
/// In the order in which the values of several stand in an embedding.
constexpr PoolingName kPoolings[] = {
    {Pooling::cls, "pooling_mode_cls_token", "cls"},
    {Pooling::max, "pooling_mode_max_tokens", "max"},
    {Pooling::mean, "pooling_mode_mean_tokens", "mean"},
    {Pooling::mean_sqrt, "pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
    {Pooling::weighted, "pooling_mode_weightedmean_tokens", "weightedmean"},
    {Pooling::last, "pooling_mode_lasttoken", "lasttoken"},
};

constexpr std::uint64_t kModulesBytes = 1 << 20;

bool has_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

std::optional<HubConfig> config_at(const fs::path& path) {
  return has_file(path) ? std::optional(HubConfig::from_file(path)) : std::nullopt;
}

void read_pooling(const HubConfig& config, std::int64_t hidden, EmbedConfig& out) {
  if (const auto width = config.integer("word_embedding_dimension"); width && *width != hidden)
    fail(ErrorCode::format, "{}: word_embedding_dimension: expected the model's {}, found {}", config.file(), hidden,
         *width);
  out.pool_prompt = config.flag("include_prompt").value_or(true);
  out.pooling.clear();
  if (const std::optional<std::string> mode = config.text("pooling_mode")) {
    for (const PoolingName& p : kPoolings)
      if (p.name == *mode) out.pooling.push_back(p.pooling);
    if (out.pooling.empty())
      fail(ErrorCode::format,
           "{}: pooling_mode: expected cls, max, mean, mean_sqrt_len_tokens, weightedmean or lasttoken, found \"{}\"",
           config.file(), *mode);
    return;
  }
  for (const PoolingName& p : kPoolings)  // absent: the mean alone is on
    if (config.flag(p.key).value_or(p.pooling == Pooling::mean)) out.pooling.push_back(p.pooling);
  if (out.pooling.empty())
    fail(ErrorCode::format, "{}: pooling_mode_*: expected one that is true, found none", config.file());
}

struct Module {
  std::string kind;  // "Pooling" of "sentence_transformers.models.Pooling"
  std::string path;
};

std::string module_text(const nlohmann::json& module, const char* key, const std::string& place) {
  const auto at = module.is_object() ? module.find(key) : module.end();
  if (at == module.end() || !at->is_string())
    fail(ErrorCode::format, "{}: {}: expected a string, found {}", place, key,
         at == module.end() ? "none" : at->type_name());
  return at->get<std::string>();
}

std::vector<Module> read_modules(const fs::path& file) {
  const nlohmann::json list = nlohmann::json::parse(read_file(file, kModulesBytes), nullptr, false);
  if (!list.is_array())
    fail(ErrorCode::format, "{}: expected a JSON list of modules, found {}", file.string(),
         list.is_discarded() ? "no JSON" : list.type_name());
  std::vector<Module> modules;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string place = fmt::format("{}: [{}]", file.string(), i), type = module_text(list[i], "type", place);
    Module m{type.substr(type.rfind('.') + 1), module_text(list[i], "path", place)};
    const fs::path path(m.path);
    if (path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end())
      fail(ErrorCode::format, "{}: path: expected a folder inside the model's, found \"{}\"", place, m.path);
    if (m.kind != "Transformer" && m.kind != "Pooling" && m.kind != "Normalize")
      fail(ErrorCode::unsupported, "{}: type: expected Transformer, Pooling or Normalize, found \"{}\"", place, type);
    modules.push_back(std::move(m));
  }
  return modules;
}

void read_module_files(const fs::path& folder, std::int64_t hidden, EmbedConfig& out) {
  const fs::path list = folder / "modules.json";
  if (!has_file(list)) {
    if (const auto config = config_at(folder / "1_Pooling/config.json")) read_pooling(*config, hidden, out);
    return;
  }
  const std::vector<Module> modules = read_modules(list);
  const auto of_kind = [&](std::string_view kind) {
    return std::find_if(modules.begin(), modules.end(), [&](const Module& m) { return m.kind == kind; });
  };
  const auto pooling = of_kind("Pooling");
  if (pooling == modules.end())
    fail(ErrorCode::format, "{}: expected a module of the type Pooling, found none", list.string());
  read_pooling(HubConfig::from_file(folder / pooling->path / "config.json"), hidden, out);
  out.normalize = of_kind("Normalize") != modules.end();
}

void limit_tokens(std::int64_t tokens, EmbedConfig& out) {
  out.max_tokens = out.max_tokens == 0 ? tokens : std::min(out.max_tokens, tokens);
}

/// The file is called after the family in older checkpoints. Returns whether it gives a limit.
bool read_transformer_file(const fs::path& folder, EmbedConfig& out) {
  for (const char* family : {"bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"}) {
    const auto config = config_at(folder / fmt::format("sentence_{}_config.json", family));
    if (!config) continue;
    out.lowercase = config->flag("do_lower_case").value_or(false);
    const auto most = config->integer("max_seq_length");
    if (most && *most < 1)
      fail(ErrorCode::format, "{}: max_seq_length: expected 1 or more, found {}", config->file(), *most);
    if (most) limit_tokens(*most, out);
    return most.has_value();
  }
  return false;
}

void read_prompt(const fs::path& folder, EmbedConfig& out) {
  const auto config = config_at(folder / "config_sentence_transformers.json");
  const auto name = config ? config->text("default_prompt_name") : std::nullopt;
  if (!name) return;
  const auto prompts = config->object("prompts");
  const auto prompt = prompts ? prompts->text(*name) : std::nullopt;
  if (!prompt)
    fail(ErrorCode::format, "{}: default_prompt_name: expected a name in prompts, found \"{}\"", config->file(), *name);
  out.prompt = *prompt;
}

/// Files without a limit of their own say so by a number that no text reaches, often 1e30.
void read_tokenizer_limit(const LoadedModel& model, EmbedConfig& out) {
  if (model.tokenizer_config.empty()) return;
  const HubConfig config = HubConfig::from_file(model.tokenizer_config);
  const auto most = config.number("model_max_length");
  if (most && !(*most >= 1))
    fail(ErrorCode::format, "{}: model_max_length: expected 1 or more, found {}", config.file(), *most);
  if (most && *most < INT32_MAX) limit_tokens(static_cast<std::int64_t>(*most), out);
}

void read_gguf_pooling(const GgufFile& file, EmbedConfig& out) {
  const std::string key = std::string(file.get_string("general.architecture").value_or("")) + ".pooling_type";
  const auto type = file.get_int(key);
  if (!type) return;
  constexpr Pooling kTypes[] = {Pooling::mean, Pooling::cls, Pooling::last};  // 1, 2, 3
  if (*type < 0 || *type > 4)
    fail(ErrorCode::format, "{}: {}: expected 0 to 4, found {}", file.path(), key, *type);
  if (*type == 0 || *type == 4)
    fail(ErrorCode::unsupported, "{}: {}: expected 1 (mean), 2 (cls) or 3 (last), found {} ({})", file.path(), key,
         *type, *type == 0 ? "none: --pooling chooses one" : "rank: a classifier of pairs");
  out.pooling = {kTypes[*type - 1]};
}

void read_folder(const LoadedModel& model, EmbedConfig& config) {
  read_module_files(model.path, model.model.info.hidden, config);
  if (!read_transformer_file(model.path, config)) read_tokenizer_limit(model, config);
  read_prompt(model.path, config);
}

}  // namespace

Pooling pooling_named(std::string_view text) {
  if (text == "mean") return Pooling::mean;
  if (text == "cls") return Pooling::cls;
  if (text == "max") return Pooling::max;
  if (text == "last") return Pooling::last;
  fail(ErrorCode::usage, "--pooling: expected mean, cls, max or last, found \"{}\"", text);
}

EmbedConfig read_embed_config(const LoadedModel& model, std::optional<Pooling> chosen) {
  EmbedConfig config;
  if (const std::int64_t positions = model.model.info.context; positions > 0) limit_tokens(positions, config);
  if (model.gguf) {
    if (!chosen) read_gguf_pooling(*model.gguf, config);
  } else {
    read_folder(model, config);
  }
  if (chosen) config.pooling = {*chosen};
  return config;
}

}  // namespace rlx
