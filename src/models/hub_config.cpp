#include "models/hub_config.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace rlx {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMaxBytes = 64ull << 20;
constexpr std::size_t kShown = 60;

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return text;
}

std::optional<std::int64_t> to_integer(const Json& v) {
  if (v.is_number_unsigned()) {
    const auto u = v.get<std::uint64_t>();
    return std::in_range<std::int64_t>(u) ? std::optional(static_cast<std::int64_t>(u))
                                          : std::nullopt;
  }
  if (v.is_number_integer()) return v.get<std::int64_t>();
  return std::nullopt;
}

constexpr std::string_view kNotFinite = "__float__";

std::optional<double> to_number(const Json& v) {
  if (v.is_number()) return v.get<double>();
  if (!v.is_object() || v.size() != 1 || !v.contains(kNotFinite)) return std::nullopt;
  const Json& name = v.at(std::string(kNotFinite));
  if (name == "Infinity") return std::numeric_limits<double>::infinity();
  if (name == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (name == "NaN") return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

/// JSON has no infinity, but Python writes it: the words outside of strings become objects.
std::string with_finite_numbers(std::string_view text) {
  constexpr std::string_view kWords[] = {"-Infinity", "Infinity", "NaN"};
  std::string out;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const std::string_view* word =
        std::find_if(std::begin(kWords), std::end(kWords), [&](std::string_view w) {
          return !in_string && text.substr(i).starts_with(w);
        });
    if (word != std::end(kWords)) {
      out += fmt::format("{{\"{}\": \"{}\"}}", kNotFinite, *word);
      i += word->size();
      continue;
    }
    out += c;
    if (c == '\\' && in_string && i + 1 < text.size()) out += text[++i];
    if (c == '"') in_string = !in_string;
    ++i;
  }
  return out;
}

Json parse(std::string_view text) {
  const bool plain = text.find("Infinity") == std::string_view::npos &&
                     text.find("NaN") == std::string_view::npos;
  return plain ? Json::parse(text) : Json::parse(with_finite_numbers(text));
}

}  // namespace

HubConfig HubConfig::from_file(const std::filesystem::path& path) {
  return from_text(read_file(path, kMaxBytes), path.string());
}

HubConfig HubConfig::from_text(std::string_view text, std::string file) {
  Json json;
  try {
    json = parse(text);
  } catch (const Json::exception& e) {
    fail(ErrorCode::format, "{}: expected JSON: {}", file, e.what());
  }
  if (!json.is_object())
    fail(ErrorCode::format, "{}: expected a JSON object, found {}", file, shown(json));
  return HubConfig(std::make_shared<const Json>(std::move(json)), std::move(file), {});
}

const Json* HubConfig::find(std::string_view key) const {
  const auto it = json_->find(key);
  return it == json_->end() || it->is_null() ? nullptr : &*it;
}

void HubConfig::fail_type(std::string_view key, std::string_view expected,
                          const Json& found) const {
  fail(ErrorCode::format, "{}: {}{}: expected {}, found {}", file_, path_, key, expected,
       shown(found));
}

std::optional<std::int64_t> HubConfig::integer(std::string_view key) const {
  const Json* v = find(key);
  if (!v) return std::nullopt;
  const std::optional<std::int64_t> n = to_integer(*v);
  if (!n) fail_type(key, "an integer", *v);
  return n;
}

std::optional<double> HubConfig::number(std::string_view key) const {
  const Json* v = find(key);
  if (!v) return std::nullopt;
  const std::optional<double> n = to_number(*v);
  if (!n) fail_type(key, "a number", *v);
  return n;
}

std::optional<bool> HubConfig::flag(std::string_view key) const {
  const Json* v = find(key);
  if (!v) return std::nullopt;
  if (!v->is_boolean()) fail_type(key, "true or false", *v);
  return v->get<bool>();
}

std::optional<std::string> HubConfig::text(std::string_view key) const {
  const Json* v = find(key);
  if (!v) return std::nullopt;
  if (!v->is_string()) fail_type(key, "a string", *v);
  return v->get<std::string>();
}

std::optional<std::vector<std::string>> HubConfig::texts(std::string_view key) const {
  const Json* v = find(key);
  if (!v) return std::nullopt;
  std::vector<std::string> list;
  if (!v->is_array()) fail_type(key, "a list of strings", *v);
  for (const Json& item : *v) {
    if (!item.is_string()) fail_type(key, "a list of strings", *v);
    list.push_back(item.get<std::string>());
  }
  return list;
}

std::optional<std::vector<float>> HubConfig::numbers(std::string_view key) const {
  const Json* v = find(key);
  if (!v) return std::nullopt;
  std::vector<float> list;
  if (!v->is_array()) fail_type(key, "a list of numbers", *v);
  for (const Json& item : *v) {
    const std::optional<double> n = to_number(item);
    if (!n) fail_type(key, "a list of numbers", *v);
    list.push_back(static_cast<float>(*n));
  }
  return list;
}

std::vector<std::int64_t> HubConfig::integers(std::string_view key) const {
  const Json* v = find(key);
  if (!v) return {};
  std::vector<std::int64_t> list;
  const auto add = [&](const Json& item) {
    const std::optional<std::int64_t> n = to_integer(item);
    if (!n) fail_type(key, "an integer or a list of integers", *v);
    list.push_back(*n);
  };
  if (v->is_array()) {
    for (const Json& item : *v) add(item);
  } else {
    add(*v);
  }
  return list;
}

std::optional<HubConfig> HubConfig::object(std::string_view key) const {
  const Json* v = find(key);
  if (!v) return std::nullopt;
  if (!v->is_object()) fail_type(key, "an object", *v);
  return HubConfig(Shared(json_, v), file_, fmt::format("{}{}.", path_, key));
}

std::int64_t HubConfig::required_integer(std::string_view key) const {
  const std::optional<std::int64_t> v = integer(key);
  if (!v) fail(ErrorCode::format, "{}: {}{}: expected an integer, found none", file_, path_, key);
  return *v;
}

HubConfig HubConfig::over(std::string_view defaults) const {
  Json merged = Json::parse(defaults);
  for (const auto& [key, value] : json_->items()) merged[key] = value;
  return HubConfig(std::make_shared<const Json>(std::move(merged)), file_, path_);
}

}  // namespace rlx
