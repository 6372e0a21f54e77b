// Typed reading of a JSON object of the hub (config.json, generation_config.json,
// tokenizer_config.json). A value of another type is Error(format) that names file, key, expected
// and found; null counts as absent. Numbers may be Infinity, -Infinity and NaN, as Python writes them
// or as {"__float__": "Infinity"}.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rlx {

class HubConfig {
 public:
  /// Reads a file of at most 64 MiB. Errors: io; format (no JSON, or no object at the top), with
  /// the position.
  static HubConfig from_file(const std::filesystem::path& path);
  static HubConfig from_text(std::string_view text, std::string file);

  const std::string& file() const { return file_; }
  bool has(std::string_view key) const { return find(key) != nullptr; }
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;
  std::optional<std::vector<std::string>> texts(std::string_view key) const;
  std::optional<std::vector<float>> numbers(std::string_view key) const;
  /// One integer or a list of them (eos_token_id).
  std::vector<std::int64_t> integers(std::string_view key) const;
  std::optional<HubConfig> object(std::string_view key) const;
  /// A value that must be there.
  std::int64_t required_integer(std::string_view key) const;

  /// The same object with `defaults` (JSON text of an object) under it: a key that is absent here
  /// has its value from there.
  HubConfig over(std::string_view defaults) const;
  /// The object itself (include <nlohmann/json.hpp> to read it).
  const nlohmann::json& json() const { return *json_; }

 private:
  using Shared = std::shared_ptr<const nlohmann::json>;
  HubConfig(Shared json, std::string file, std::string path)
      : json_(std::move(json)), file_(std::move(file)), path_(std::move(path)) {}

  const nlohmann::json* find(std::string_view key) const;
  [[noreturn]] void fail_type(std::string_view key, std::string_view expected,
                              const nlohmann::json& found) const;

  Shared json_;
  std::string file_;
  std::string path_;  ///< of a nested object: "text_config."
};

}  // namespace rlx
