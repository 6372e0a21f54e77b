// Chat templates: the part of the Jinja language that HF transformers sets up, as an interpreter of
// our own. Meaning of the language: https://jinja.palletsprojects.com/en/stable/templates/
// (Jinja 3.1, default Undefined, ImmutableSandboxedEnvironment with trim_blocks, lstrip_blocks and
// loop controls).
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace rlx {

using Json = nlohmann::ordered_json;

/// A range of bytes [begin, end).
struct TextSpan {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const TextSpan&) const = default;
};

/// Bounds of one render; passing one is an Error(invalid_argument) that names it (faults.md, C11).
struct TemplateLimits {
  int64_t steps = 1'000'000;              ///< evaluated nodes, loop iterations and elements touched
  size_t output_bytes = size_t{4} << 20;  ///< bytes of the result
  int depth = 100;                        ///< nested macro calls, and nesting of values
  int64_t range = 100'000;                ///< elements of range(), as in the reference sandbox
  size_t memory_bytes = size_t{64}
                        << 20;  ///< bytes of strings and lists alive at once, without the variables
  size_t work_bytes = size_t{1} << 30;  ///< bytes that string operations may process in all
};

struct RenderOptions {
  std::optional<std::tm> now;  ///< clock of strftime_now; local time when absent
  TemplateLimits limits;
  /// Variables whose strings count as template text: special tokens that the model's own files
  /// give.
  std::vector<std::string> trusted_variables = {"bos_token", "eos_token", "pad_token", "unk_token"};
};

struct RenderResult {
  std::string text;
  /// Bytes of `text` that came from strings of the variables, ascending and disjoint. A tokenizer
  /// must not read a special token that touches them. The value of a "role" key that is a
  /// well-known role name is template text, since templates build tokens like <|user|> from it.
  std::vector<TextSpan> user;
};

/// Why a render (or parse) failed, beyond the message.
enum class TemplateFault {
  syntax,  ///< the template is not well formed
  raised,  ///< the template called raise_exception
  concat,  ///< text and another type were added (faults.md, C05)
  limit,   ///< a bound of TemplateLimits
  other,
};

/// Error of a template: code format for syntax, invalid_argument for rendering; "name:line:column:
/// why".
class TemplateError : public Error {
 public:
  TemplateError(TemplateFault fault, const std::string& message)
      : Error(fault == TemplateFault::syntax ? ErrorCode::format : ErrorCode::invalid_argument,
              message),
        fault_(fault) {}
  TemplateFault fault() const noexcept { return fault_; }

 private:
  TemplateFault fault_;
};

namespace jinja {
struct Program;
}

/// A parsed template: immutable, cheap to copy, safe to render from several threads at once.
class Template {
 public:
  /// Parses `source` (UTF-8). Throws TemplateError (format) with line and column.
  static Template parse(std::string_view source, std::string name);

  /// Renders with the object `variables` (include <nlohmann/json.hpp> to make one).
  /// Throws TemplateError (invalid_argument).
  RenderResult render(const Json& variables, const RenderOptions& options) const;
  RenderResult render(const Json& variables) const { return render(variables, RenderOptions()); }

  const std::string& name() const;

 private:
  explicit Template(std::shared_ptr<const jinja::Program> program) : program_(std::move(program)) {}
  std::shared_ptr<const jinja::Program> program_;
};

}  // namespace rlx
