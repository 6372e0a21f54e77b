// Reading tokenizer.json: the two big tables (vocabulary, merges) go straight into flat arrays, the
// rest into a document whose fields are read with checks. The file is hostile input.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer/data.h"

namespace rlx::tokenizer {

/// The content of a file.
struct TokenizerJson {
  std::string origin;
  nlohmann::json root;  ///< without model.vocab (if an object) and model.merges
  bool has_vocab = false, has_merges = false;

  struct Token {
    std::string text;
    std::int64_t id;
  };
  std::vector<Token> vocab;
  std::vector<std::pair<std::string, std::string>> merges;
};

/// Errors: format (origin, line and byte, reason), also for nesting deeper than 64.
TokenizerJson read_tokenizer_json(std::string_view json, const std::string& origin);

/// What is wrong with a text that does not parse: line, byte within it and the offending character.
/// `read`: bytes that the parser had read, the offending one included.
std::string json_fault(std::string_view text, std::size_t read);

/// An object of the document with its place, for messages: "FILE: decoder.decoders[2]: ...".
class Fields {
 public:
  /// Errors: format when `value` is not an object.
  Fields(const nlohmann::json& value, std::string place);

  const std::string& place() const { return place_; }
  bool has(const char* key) const;  ///< present and not null
  /// Errors of all getters: format (expected and found type) and, without a default, a missing
  /// field.
  bool boolean(const char* key, std::optional<bool> otherwise = std::nullopt) const;
  std::string string(const char* key, std::optional<std::string> otherwise = std::nullopt) const;
  std::int64_t integer(const char* key, std::int64_t low, std::int64_t high) const;
  Fields object(const char* key) const;
  const nlohmann::json& array(const char* key) const;
  const nlohmann::json& value(const char* key) const;

  [[noreturn]] void wrong(const std::string& what) const;
  [[noreturn]] void unsupported(const std::string& what) const;

 private:
  const nlohmann::json* value_;
  std::string place_;
};

/// The steps of the sections of the same names; null gives none. Errors: format, unsupported (a
/// type, named).
std::vector<NormalizeStep> read_normalizer(const TokenizerJson& file);
std::vector<PreStep> read_pre_tokenizer(const TokenizerJson& file);
std::vector<DecodeStep> read_decoder(const TokenizerJson& file);

}  // namespace rlx::tokenizer
