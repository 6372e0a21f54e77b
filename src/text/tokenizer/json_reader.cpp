#include "text/tokenizer/json_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/byte_reader.h"

namespace rlx::tokenizer {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxDepth = 64;

/// Receives the parser's events.
class Handler : public nlohmann::json_sax<json> {
 public:
  Handler(TokenizerJson& file, std::string_view text) : file_(file), text_(text) {}

  bool null() override { return value(nullptr); }
  bool boolean(bool v) override { return value(v); }
  bool number_integer(number_integer_t v) override { return number(v); }
  bool number_unsigned(number_unsigned_t v) override {
    // An id past the signed range is as wrong as a negative one.
    return number(v > static_cast<number_unsigned_t>(INT64_MAX) ? -1
                                                                : static_cast<std::int64_t>(v));
  }
  bool number_float(number_float_t v, const string_t&) override { return value(v); }
  bool binary(binary_t&) override { return refuse("binary data"); }

  bool string(string_t& v) override {
    if (mode_ == Mode::merges) return merge_text(v);
    if (mode_ == Mode::merge_pair) return merge_part(v);
    return value(std::move(v));
  }

  bool start_object(std::size_t) override {
    if (in_model() && key_ == "vocab") {
      file_.has_vocab = true;
      file_.vocab.clear();
      mode_ = Mode::vocab;
      return true;
    }
    return open(json::object());
  }
  bool key(string_t& k) override {
    key_ = std::move(k);
    return true;
  }
  bool end_object() override { return close(); }

  bool start_array(std::size_t) override {
    if (mode_ == Mode::merges) {
      mode_ = Mode::merge_pair;
      pair_.clear();
      return true;
    }
    if (in_model() && key_ == "merges") {
      file_.has_merges = true;
      file_.merges.clear();
      mode_ = Mode::merges;
      return true;
    }
    return open(json::array());
  }
  bool end_array() override {
    if (mode_ != Mode::merge_pair) return close();
    if (pair_.size() != 2)
      return refuse(fmt::format("model.merges[{}]: expected two parts", file_.merges.size()));
    file_.merges.emplace_back(std::move(pair_[0]), std::move(pair_[1]));
    mode_ = Mode::merges;
    return true;
  }

  bool parse_error(std::size_t read, const std::string&,
                   const nlohmann::detail::exception& e) override {
    constexpr int kNumberOverflow = 406;
    if (e.id == kNumberOverflow) refuse("not JSON: a number is out of range");
    refuse(json_fault(text_, read));
  }

 private:
  enum class Mode { document, vocab, merges, merge_pair };

  [[noreturn]] bool refuse(const std::string& what) const {
    fail(ErrorCode::format, "{}: {}", file_.origin, what);
  }

  bool in_model() const {
    return mode_ == Mode::document && stack_.size() == 2 && model_ && stack_.back() == model_;
  }

  bool number(std::int64_t v) {
    if (mode_ != Mode::vocab) return value(v);
    file_.vocab.push_back({std::move(key_), v});
    return true;
  }

  /// Puts a value at the current place of the document.
  json* put(json v) {
    if (mode_ == Mode::vocab) refuse(fmt::format("model.vocab: {} is not a number", quote(key_)));
    if (mode_ != Mode::document)
      refuse(fmt::format("model.merges[{}]: expected a text", file_.merges.size()));
    if (stack_.empty()) {
      file_.root = std::move(v);
      return &file_.root;
    }
    json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(v));
      return &parent.back();
    }
    json& place = parent[key_];
    place = std::move(v);
    return &place;
  }

  bool value(json v) {
    put(std::move(v));
    return true;
  }

  bool open(json v) {
    if (stack_.size() >= kMaxDepth) refuse(fmt::format("nested deeper than {}", kMaxDepth));
    const bool is_model = stack_.size() == 1 && stack_.back()->is_object() && key_ == "model";
    json* place = put(std::move(v));
    if (is_model) model_ = place;
    stack_.push_back(place);
    return true;
  }

  bool close() {
    if (mode_ == Mode::document) {
      stack_.pop_back();
    } else {
      mode_ = Mode::document;
    }
    return true;
  }

  bool merge_text(const std::string& text) {
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      refuse(fmt::format("model.merges[{}]: {} is not two parts with a space between",
                         file_.merges.size(), quote(text)));
    }
    file_.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    return true;
  }

  bool merge_part(std::string& text) {
    if (pair_.size() == 2)
      refuse(fmt::format("model.merges[{}]: expected two parts", file_.merges.size()));
    pair_.push_back(std::move(text));
    return true;
  }

  TokenizerJson& file_;
  std::string_view text_;
  std::vector<json*>
      stack_;  ///< the open containers; a place stays valid while only its own children grow
  json* model_ = nullptr;
  std::string key_;
  Mode mode_ = Mode::document;
  std::vector<std::string> pair_;
};

}  // namespace

std::string json_fault(std::string_view text, std::size_t read) {
  const std::size_t at = read == 0 ? 0 : std::min(read - 1, text.size());
  const std::string_view before = text.substr(0, at);
  const std::size_t line_end = before.rfind('\n');
  const std::size_t line_begin = line_end == std::string_view::npos ? 0 : line_end + 1;
  const std::string what = read > text.size() || text.empty()
                               ? "the text ends too early"
                               : "unexpected " + quote(text.substr(at, 1));
  return fmt::format("not JSON: line {}, byte {}: {}",
                     1 + std::count(before.begin(), before.end(), '\n'), at - line_begin + 1, what);
}

TokenizerJson read_tokenizer_json(std::string_view text, const std::string& origin) {
  TokenizerJson file;
  file.origin = origin;
  Handler handler(file, text);
  json::sax_parse(text.begin(), text.end(), &handler);
  if (!file.root.is_object()) {
    fail(ErrorCode::format, "{}: expected an object, found {}", origin, file.root.type_name());
  }
  return file;
}

Fields::Fields(const json& value, std::string place) : value_(&value), place_(std::move(place)) {
  if (!value.is_object()) wrong(fmt::format("expected an object, found {}", value.type_name()));
}

bool Fields::has(const char* key) const {
  const auto it = value_->find(key);
  return it != value_->end() && !it->is_null();
}

const json& Fields::value(const char* key) const {
  const auto it = value_->find(key);
  if (it == value_->end()) wrong(fmt::format("the field '{}' is missing", key));
  return *it;
}

bool Fields::boolean(const char* key, std::optional<bool> otherwise) const {
  if (otherwise && !has(key)) return *otherwise;
  const json& v = value(key);
  if (!v.is_boolean())
    wrong(fmt::format("{}: expected true or false, found {}", key, v.type_name()));
  return v.get<bool>();
}

std::string Fields::string(const char* key, std::optional<std::string> otherwise) const {
  if (otherwise && !has(key)) return *std::move(otherwise);
  const json& v = value(key);
  if (!v.is_string()) wrong(fmt::format("{}: expected a text, found {}", key, v.type_name()));
  return v.get<std::string>();
}

std::int64_t Fields::integer(const char* key, std::int64_t low, std::int64_t high) const {
  const json& v = value(key);
  if (!v.is_number_integer())
    wrong(fmt::format("{}: expected a whole number, found {}", key, v.type_name()));
  const auto n = v.get<std::int64_t>();
  if (n < low || n > high) wrong(fmt::format("{}: expected {} to {}, found {}", key, low, high, n));
  return n;
}

Fields Fields::object(const char* key) const { return {value(key), place_ + "." + key}; }

const json& Fields::array(const char* key) const {
  const json& v = value(key);
  if (!v.is_array()) wrong(fmt::format("{}: expected a list, found {}", key, v.type_name()));
  return v;
}

void Fields::wrong(const std::string& what) const {
  fail(ErrorCode::format, "{}: {}", place_, what);
}

void Fields::unsupported(const std::string& what) const {
  fail(ErrorCode::unsupported, "{}: {} is not supported", place_, what);
}

}  // namespace rlx::tokenizer
